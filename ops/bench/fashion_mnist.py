"""The method against its peers on Fashion-MNIST: FedPAC's split over 200 rounds, four other partitions over 40.

    python ops/bench/fashion_mnist.py --tune [--methods fedprox,…]
    python ops/bench/fashion_mnist.py [--setting fedpac,dirichlet-0.1,…] [--methods local,…] [--seeds 3] [--work DIR]
    python ops/bench/fashion_mnist.py --table

Hours on two cores, so it can be stopped at any time and goes on from the last whole round in --work; several may run
side by side on other settings, methods or seeds. A run that has ended leaves one small file in
`results/fashion_mnist/SETTING/METHOD.SEED.json` and is not done again; `--table` prints what these files hold. One
partition a setting, drawn with seed 0; 20 sites of 600 training records; network and training as FedPAC's paper has
them (Xu, Tong, Huang, ICLR 2023). `secureproto simulate run secureproto/simulation/studies/fashion-mnist.toml --data
fashion-mnist --sites 20 --per-site 600 --partition …` runs the same.

Hyper-parameters: `--tune` does two steps for each method, by `secureproto simulate tune`: 15 rounds on Dirichlet 0.3,
a partition that no table has, a fifth of its training records to choose by.

    1. every value of the method's own grid, with the published learning rate         → tuning.json
    2. the learning rate, of RATES, with what 1. chose                                → rates.json

FedPAC's split runs with what 1. chose, since the published figures are of that learning rate, and what serves 15
rounds need not serve 200; the four other settings with what 2. chose. On two classes a site that is the best of the
rates up to 0.03: at 0.1 some seeds diverge in the first rounds, with any method, which shows without a test record.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from urllib.parse import unquote

from secureproto.simulation.command import Request, session
from secureproto.simulation.data.catalogue import example_study
from secureproto.simulation.experiment import directory_name
from secureproto.simulation.history import RECEIVED, TEST, TUNED, History
from secureproto.simulation.results.reported import POINTS
from secureproto.simulation.tuning import CHOSEN_MARK, TuningRequest, tune

RESULTS = Path(__file__).parent / "results" / "fashion_mnist"
TUNING, TUNED_RATES = RESULTS / "tuning.json", RESULTS / "rates.json"
RATES = ("0.01", "0.03", "0.1", "0.3")
VALIDATED = "validation accuracy"  # in what `simulate tune` says of a candidate
TUNED_ON = "dirichlet:0.3"
TUNING_ROUNDS = 15


@dataclass(frozen=True)
class Setting:
    """A partition, the rounds, the methods of the comparison."""

    partition: str
    rounds: int
    evaluate_every: int
    methods: tuple[str, ...]
    published_rate: bool = False
    largest_rate: float = float(RATES[-1])


ALL = ("local", "fedavg", "fedprox", "fedper", "fedrep", "fedproto", "fedpac", "ditto", "protoaligned")
# FedProto's two ways to predict have one training
WITH_A_GRID = ("fedprox", "fedrep", "fedproto:inference=head", "fedpac", "ditto", "protoaligned")
SETTINGS = {
    "fedpac": Setting(
        "fedpac:20:3", 200, 10, ("local", "fedavg", "fedper", "fedpac", "protoaligned"), published_rate=True
    ),
    "dirichlet-0.1": Setting("dirichlet:0.1", 40, 10, ALL),
    "dirichlet-1": Setting("dirichlet:1", 40, 10, ALL),
    "iid": Setting("iid", 40, 10, ALL),
    "two-classes": Setting("pathological:2", 40, 10, ALL, largest_rate=0.03),
}


def request(name: str, labels: tuple[str, ...], work: Path) -> Request:
    """What `simulate run` would be asked for."""
    setting = SETTINGS[name]
    return Request(
        study=example_study("fashion-mnist"),
        data=("fashion-mnist",),
        partition=setting.partition,
        sites=20,
        per_site=600,
        rounds=setting.rounds,
        evaluate_every=setting.evaluate_every,
        methods=labels,
        without_baselines=True,
        models=False,
        out=work / name,
    )


def tuning(labels: tuple[str, ...], work: Path, *grid: str) -> TuningRequest:
    """What `simulate tune` would be asked for. Nothing is chosen by sites: it would take longer than the rounds."""
    return TuningRequest(
        study=example_study("fashion-mnist"),
        data=("fashion-mnist",),
        partition=TUNED_ON,
        partition_seed=1,
        sites=20,
        per_site=600,
        validation=0.2,
        rounds=TUNING_ROUNDS,
        evaluate_every=TUNING_ROUNDS,
        seeds=1,
        methods=labels,
        grid=grid,
        choice=False,
        out=work / "tune",
    )


def choose(arguments: argparse.Namespace) -> None:
    """Both steps; what was tried and chosen goes beside the results, and is not tried again."""
    labels = tuple(arguments.methods.split(",")) if arguments.methods else ALL
    for label in labels:
        own = "fedproto:inference=head" if label == "fedproto" else label
        if own in WITH_A_GRID and own not in winners(TUNING):
            keep(TUNING, tune(tuning((own,), arguments.work), say))
        base = with_chosen((label,), TUNING)[0]
        if base not in winners(TUNED_RATES):
            keep(TUNED_RATES, tune(tuning((base,), arguments.work, f"learning_rate={','.join(RATES)}"), say))


def keep(path: Path, rows: list[dict[str, object]]) -> None:
    """Add what was tried to a file, in the place of what it has of the same methods."""
    new = {row["method"] for row in rows}
    rows = [row for row in read(path) if row["method"] not in new] + rows
    path.write_text(json.dumps(rows, indent=1) + "\n")


def read(path: Path) -> list[dict[str, object]]:
    """The rows of a tuning."""
    found: list[dict[str, object]] = json.loads(path.read_text()) if path.exists() else []
    return found


def winners(path: Path) -> dict[str, str]:
    """What was chosen, by what was tuned."""
    return {str(row["method"]): str(row["candidate"]) for row in read(path) if row["chosen"] == CHOSEN_MARK}


def best_up_to(largest: float, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Each with the best of the tuned rates up to this one; of equals the first that was tried."""
    found: dict[str, dict[str, object]] = {}
    for row in read(TUNED_RATES):
        method, rate = str(row["method"]), float(str(row["candidate"]).rpartition("learning_rate=")[2])
        if rate <= largest and row[VALIDATED] is not None:
            best = found.setdefault(method, row)
            found[method] = row if float(str(row[VALIDATED])) > float(str(best[VALIDATED])) else best
    return tuple(str(found[label]["candidate"]) if label in found else label for label in labels)


def with_chosen(methods: tuple[str, ...], tuned: Path) -> tuple[str, ...]:
    """The chosen candidate of each method, the others as they are."""
    best = {label.partition(":")[0]: chosen for label, chosen in winners(tuned).items()}
    return tuple(best.get(label, label) for label in methods)


def labels_of(setting: Setting, methods: tuple[str, ...]) -> tuple[str, ...]:
    """The methods as a setting runs them."""
    own = with_chosen(methods, TUNING)
    return own if setting.published_rate else best_up_to(setting.largest_rate, own)


def run(name: str, arguments: argparse.Namespace) -> None:
    """All runs of a setting that are not done yet."""
    named = tuple(arguments.methods.split(",")) if arguments.methods else SETTINGS[name].methods
    labels = labels_of(SETTINGS[name], named)
    asked = request(name, labels, arguments.work)
    assert asked.out is not None
    with session(asked, asked.out, say) as opened:
        partition = opened.experiment.definition.partition_digest
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for label in labels:
                path = RESULTS / name / f"{directory_name(label)}.{seed}.json"
                if not path.exists():
                    opened.go(label, seed)
                    histories = opened.experiment.histories()
                    found = next(one for one in histories if (one.method, one.seed) == (label, seed))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps(kept(found, partition), indent=1) + "\n")


def kept(history: History, partition: str) -> dict[str, object]:
    """What is kept of a run: scores of every site after the last round, the curve of their means, bytes, seconds."""
    last = history.rounds[-1].sites if history.rounds else {}  # it may diverge in its first round
    curve = {
        record.number: {point: round(mean(record.sites, point), 5) for point in (RECEIVED, TUNED)}
        for record in history.rounds
        if any(RECEIVED in site.points for site in record.sites.values())
    }
    return {
        "partition_digest": partition,
        "failure": history.failure,
        "sites": {name: {p: m[TEST].model_dump() for p, m in site.points.items()} for name, site in last.items()},
        "chosen": dict(Counter(site.chosen for site in last.values() if site.chosen is not None)),
        "curve": curve,
        "bytes_sent_a_site": sum(site.bytes_sent for record in history.rounds for site in record.sites.values())
        / max(len(last), 1),
        "seconds": round(sum(record.seconds for record in history.rounds), 1),
    }


def mean(sites: object, point: str) -> float:
    """Mean test accuracy over the sites."""
    assert isinstance(sites, dict)
    return fmean(site.points[point][TEST].accuracy for site in sites.values())


def table() -> None:
    """Accuracy in percent: mean over the sites, then over seeds with their standard deviation."""
    for name, setting in SETTINGS.items():
        found = defaultdict(list)
        for path in sorted((RESULTS / name).glob("*.json")):
            label, _, _ = unquote(path.name).rsplit(".", 2)
            found[label].append(json.loads(path.read_text()))
        if found:
            print(f"\n{name}: {setting.partition}, {setting.rounds} rounds")
        for label, runs in found.items():
            ended = [one for one in runs if one["failure"] is None]
            sites = [site for run in ended for site in run["sites"].values()]
            points = [point for point in POINTS if sites and all(point in site for site in sites)]
            columns = [f"{point} {summary(ended, point)}" for point in points]
            print(f"  {label:40s} {'   '.join(columns)}   seeds {len(ended)} of {len(runs)}")


def summary(runs: list[dict[str, dict[str, dict[str, dict[str, float]]]]], point: str) -> str:
    """Mean, deviation over seeds, worst site."""
    means = [fmean(site[point]["accuracy"] for site in run["sites"].values()) for run in runs]
    worst = fmean(min(site[point]["accuracy"] for site in run["sites"].values()) for run in runs)
    deviation = f" ± {100 * stdev(means):.2f}" if len(means) > 1 else ""
    return f"{100 * fmean(means):.2f}{deviation} (worst site {100 * worst:.1f})"


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--setting", default=",".join(SETTINGS))
    parser.add_argument("--methods")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/secureproto-bench"))  # noqa: S108 - resumable
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--tune", action="store_true")
    arguments = parser.parse_args()
    if arguments.tune:
        choose(arguments)
        return
    if not arguments.table:
        for name in arguments.setting.split(","):
            run(name, arguments)
    table()


if __name__ == "__main__":
    main()
