"""Which model a site should use: how often each candidate of `learning.choice` wins, and what the choice brings.

`python ops/bench/choice.py [--draws 20]` prints JSON and writes ops/bench/results/choice.json. Exits with
1 when at some site of the heart data the chosen model's mean log loss is over that of the version as received by more
than 0.005.

Heart disease: `--draws` stratified splits, drawn anew with the seed, and half as many seeds on the split of FLamby.
Digits: a quarter as many draws of four partitions over ten sites, from sites that are alike to sites of two classes;
extractors learn their training records by heart there. Each draw runs the study's rounds twice: with all training
records, and with 20 % of them left out.

    alone        own data only: as many local trainings as there are rounds
    mixed … own  each candidate, for all sites
    crossed m    chosen by five folds of the training records, with a margin of m standard errors
    heads first  the same with two standard errors, where candidates with the received extractor go before others
    left out m   chosen by the 20 % that no round trained on; the rounds have 20 % less to learn from

A score is the mean over sites and draws on test records that nothing was fitted or chosen on. `over_received` and
`over_alone`: mean log loss by site, minus that of the version as received and of own data only; under 0 is better.
"""

import argparse
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from secureproto.data.settings import LONGER
from secureproto.learning import choice
from secureproto.learning.arrays import load_arrays
from secureproto.learning.choice import KINDS, MARGIN, Kind, Start, candidates, judge, log_losses, out_of_fold, pick
from secureproto.learning.evaluate import score
from secureproto.learning.exchange import Received
from secureproto.learning.inference import predict_proba
from secureproto.learning.model import build
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.data.catalogue import example_study, load_pool
from secureproto.simulation.data.reading import SourceOptions
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.method import Method
from secureproto.simulation.partition.assign import assign
from secureproto.simulation.partition.division import Options
from secureproto.simulation.partition.spec import parse
from secureproto.simulation.population import Pool, Population, SiteData
from secureproto.simulation.run import KEPT, PERSONAL, Run, RunOptions, with_seed
from secureproto.simulation.store import SHARED, RunStore
from secureproto.study.file import load
from secureproto.study.schema import StudyFile

ALLOWED = 0.005
FOLDS = 5
SHARE = 1 / FOLDS
MARGINS = (0.0, 1.0, 2.0)
HEADS_FIRST: tuple[Kind, ...] = ("mixed", "blend", "own", "local", "midway", "longer")
MEASURES = ("accuracy", "balanced_accuracy", "auc", "log_loss")
CHOSEN = f"crossed {MARGIN:g}"
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """One data set with a partition, and the draws of it."""

    name: str
    data: str
    partition: str
    options: Options
    draws: int
    redrawn: bool = True

    def population(self, pool: Pool, study: StudyFile, draw: int, share: float) -> Population:
        """The sites of a draw, with a share of the training records set aside."""
        seed = draw if self.redrawn else 0
        changed = {**vars(self.options), "seed": seed, "validation_share": share}
        scheme = parse(self.partition)
        return assign(pool, scheme, Options(**changed), classes=study.classes).population(pool)


@dataclass
class Tally:
    """Scores by way, site and draw: accuracy, balanced accuracy, AUC (NaN where there is none), log loss."""

    scores: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)
    won: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)

    def add(self, way: str, site: str, y: NDArray[np.int64], probabilities: F64) -> None:
        """Take in the test records of one site."""
        found = score(y, probabilities)
        auc = float("nan") if found.auc is None else found.auc
        row = [found.accuracy, found.balanced_accuracy, auc, float(log_losses(y, probabilities).mean())]
        self.scores.setdefault(way, {}).setdefault(site, []).append(row)

    def win(self, way: str, site: str, kind: str) -> None:
        """Count what a way chose."""
        self.won.setdefault(way, {}).setdefault(site, Counter())[kind] += 1

    def report(self) -> dict[str, object]:
        """Means by way, and by site what the chosen model has over others."""
        means = {way: np.array(list(by_site.values())) for way, by_site in self.scores.items()}  # (sites, draws, 4)
        rows = {
            way: {name: round(float(np.nanmean(table[:, :, i])), 4) for i, name in enumerate(MEASURES)}
            for way, table in means.items()
        }
        sites = sorted(self.scores["mixed"])
        shown = sites if len(sites) <= 4 else []  # sites of a drawn partition are no one's
        by_site = {
            site: {way: _columns(self.scores[way][site]) for way in ("alone", "mixed", "local", CHOSEN)}
            for site in shown
        }
        chosen = means[CHOSEN][:, :, 3].mean(axis=1)
        over = {
            f"over_{name}": {"largest": round(float(d.max()), 4), "mean": round(float(d.mean()), 4)}
            for name, way in (("received", "mixed"), ("alone", "alone"))
            for d in [chosen - means[way][:, :, 3].mean(axis=1)]
        }
        wins = {way: dict(sum(by_site.values(), Counter())) for way, by_site in self.won.items()}
        own = {site: dict(self.won[CHOSEN][site]) for site in shown}
        return {"means": rows, "by_site": by_site, **over, "won": wins, "won_by_site": own}


def _columns(rows: list[list[float]]) -> dict[str, float | None]:
    """Means over draws, by measure; None where a score is never there."""
    columns = dict(zip(MEASURES, np.array(rows).T, strict=True))
    known = {name: column[~np.isnan(column)] for name, column in columns.items()}
    return {name: round(float(column.mean()), 4) if len(column) else None for name, column in known.items()}


def run(method: Method, sites: Population) -> RunStore:
    """All rounds; no scores on the way."""
    store = RunStore()
    Run(method, sites, InProcess(), store, RunOptions(evaluate_every=method.study.rounds.total + 1)).go()
    return store


def folds_of(records: int, draw: int) -> NDArray[np.int64]:
    """Folds without regard to class, as a hash of ids gives them."""
    return np.random.default_rng([5, draw]).integers(FOLDS, size=records)


def measure(study: StudyFile, setting: Setting, pool: Pool, draw: int, tally: Tally) -> None:
    """One draw of one setting."""
    study = with_seed(study, draw)
    whole, part = (setting.population(pool, study, draw, share) for share in (0.0, SHARE))
    alone, joined, short = run(Local(study), whole), run(ProtoAligned(study), whole), run(ProtoAligned(study), part)
    model = build(study)

    def predicted(weights: dict[str, NDArray[np.float32]], data: SiteData) -> F64:
        load_arrays(model, weights)
        return predict_proba(model, data.test.x)

    for site in whole.names:
        data, y = whole.site(site), whole.site(site).test.y
        tally.add("alone", site, y, predicted(alone.get(KEPT + site), data))
        start = start_of(study, joined, site)
        fitted = candidates(model, start, records=data.train)
        for kind in KINDS:
            tally.add(kind, site, y, predicted(fitted[kind], data))
        losses, _ = out_of_fold(model, start, records=data.train, folds=folds_of(len(data.train), draw))
        rest = part.site(site)
        assert rest.validation is not None
        other = candidates(model, start_of(study, short, site), records=rest.train)
        judged = judge(model, other, rest.validation)
        picked = {f"crossed {margin:g}": (pick(losses, margin), fitted) for margin in MARGINS}
        picked["heads first"] = (pick(losses, MARGIN, HEADS_FIRST), fitted)
        picked |= {f"left out {margin:g}": (pick(judged, margin), other) for margin in MARGINS}
        for way, (kind, weights) in picked.items():
            tally.add(way, site, y, predicted(weights[kind], data))
            tally.win(way, site, kind)


def start_of(study: StudyFile, store: RunStore, site: str) -> Start:
    """The last version of a run, as a site has it."""
    received = Received(study.rounds.total, store.get(SHARED), store.get(PERSONAL + site))
    return Start(study, received, site, longer=LONGER)


def settings(draws: int) -> Iterator[Setting]:
    """What is measured."""
    yield Setting("heart, stratified", "heart", "natural", Options(split="stratified"), draws)
    yield Setting("heart, FLamby's split", "heart", "natural", Options(), max(1, draws // 2), redrawn=False)
    small, whole = Options(sites=10, per_site=80, split="stratified"), Options(sites=10, split="stratified")
    for name, partition, options in (
        ("FedPAC's partition", "fedpac:20:3", small),
        ("Dirichlet 1", "dirichlet:1", whole),
        ("Dirichlet 0.3", "dirichlet:0.3", whole),
        ("two classes a site", "pathological:2", whole),
    ):
        yield Setting(f"digits, {name}", "digits", partition, options, max(1, draws // 4))


def within(report: dict[str, object]) -> bool:
    """Whether no site has lost more than is allowed."""
    over = report["over_received"]
    assert isinstance(over, dict)
    return bool(over["largest"] <= ALLOWED)


def main(say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)) -> int:
    """Measure, print, write; 1 when a hospital is worse off."""
    parser = argparse.ArgumentParser(description="How often each candidate wins, and what the choice brings.")
    parser.add_argument("--draws", type=int, default=20)
    draws = parser.parse_args().draws
    torch.set_num_threads(1)
    reports: dict[str, dict[str, object]] = {}
    for setting in settings(draws):
        study, tally = load(example_study(setting.data)), Tally()
        pool = load_pool((setting.data,), study, options=SourceOptions(), root=None)
        for draw in range(setting.draws):
            measure(study, setting, pool, draw, tally)
            say(f"{setting.name}: draw {draw + 1} of {setting.draws}")
        reports[setting.name] = {"draws": setting.draws, **tally.report()}
    passed = all(within(report) for name, report in reports.items() if name.startswith("heart"))
    report = {
        "bench": "choice",
        "folds": FOLDS,
        "margin": MARGIN,
        "own_epochs": choice.OWN_EPOCHS,
        "longer": LONGER,
        "order": KINDS,
        "settings": reports,
        "allowed": ALLOWED,
        "passed": passed,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__},
    }
    text = json.dumps(report, indent=2)
    print(text)
    target = Path(__file__).parent / "results" / "choice.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text + "\n", encoding="utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
