"""The four hospitals: the method against its peers, on FLamby's split and on repeated ones.

    python ops/bench/heart.py --tune
    python ops/bench/heart.py [--seeds 10] [--splits 20] [--work DIR]

The second prints JSON and writes results/heart.json; it goes on where it was stopped. All training records are
trained on, and the last round is reported. It is what `secureproto simulate run` gives: means over the hospitals of
the mean over seeds, `pooled` over all test patients, and each method's difference from own data only, paired by
seed, with its 95 % interval; for this project's method by hospital too.

Hyper-parameters: every method twice, with the installed study's training, and with what `--tune` chose for it (by
`secureproto simulate tune`: the same 8 ways to train for each, FLamby's training patients only, another 30 % of them
to choose by for each of 5 seeds), which is kept in results/heart_tuning.json.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

from secureproto.simulation.command import Reporting, Request, perform
from secureproto.simulation.data.catalogue import example_study
from secureproto.simulation.heart.hospitals import SPLIT_COLUMN, data_path
from secureproto.simulation.results import Summary
from secureproto.simulation.tuning import TuningRequest, tune

OURS = "protoaligned"
PEERS = ("fedavg", "fedprox", "fedper", "fedrep", "fedproto", "fedpac", "ditto")
TUNING = Path(__file__).parent / "results" / "heart_tuning.json"
WAYS = ("learning_rate=0.05,0.2", "weight_decay=0.0,0.1", "local_epochs=2,10", "batch_size=512")
# each method's own settings stay as published, which but for FedRep is the default: only how it trains is chosen here
PUBLISHED = {
    "fedprox": "mu=0.01",
    "fedrep": "head_epochs=10",
    "fedproto": "lam=1.0:inference=head",
    "fedpac": "head_learning_rate=0.1:lam=1.0",
    "ditto": "lam=1.0",
    OURS: "alignment_weight=1.0",
}


def training_patients(path: Path) -> Path:
    """FLamby's training patients in a file of their own."""
    with data_path().open(encoding="utf-8", newline="") as source:
        rows = [row for row in csv.DictReader(source) if row.pop(SPLIT_COLUMN) == "train"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def tuning(work: Path) -> TuningRequest:
    """What `simulate tune` would be asked for."""
    labels = [":".join(filter(None, (name, PUBLISHED.get(name)))) for name in ("local", *PEERS, OURS)]
    return TuningRequest(
        study=example_study("heart"),
        data=(str(training_patients(work / "training.csv")),),
        site_column="site",
        repeated=True,
        test_share=0.05,
        validation=0.3,
        methods=tuple(labels),
        grid=WAYS,
        seeds=5,
        evaluate_every=30,
        out=work / "tune",
    )


def choose(work: Path) -> None:
    """How each method is to be trained; all that was tried is kept."""
    rows = tune(tuning(work), lambda _: None)
    TUNING.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def chosen() -> tuple[str, ...]:
    """The candidates that were chosen, one a method, without settings that are the default: labels stay short."""
    rows = json.loads(TUNING.read_text())
    found = {row["method"]: row["candidate"] for row in rows if row["chosen"] == "use this"}
    return tuple(
        candidate if (name := method.partition(":")[0]) == "fedrep" else name + candidate.removeprefix(method)
        for method, candidate in found.items()
    )


def request(arguments: argparse.Namespace, *, repeated: bool) -> Request:
    """FLamby's split with several seeds, or a new split for each."""
    return Request(
        study=example_study("heart"),
        data=("heart",),
        repeated=repeated,
        test_share=0.34,  # FLamby's: 254 of 740
        methods=(*PEERS, "pooled", OURS, *chosen()),
        seeds=arguments.splits if repeated else arguments.seeds,
        evaluate_every=30,
        models=False,
        out=arguments.work / ("repeated" if repeated else "flamby"),
    )


def told(summary: Summary) -> dict[str, object]:
    """Means by method and point; what ours has over each method; each hospital of ours against own data only."""
    means = {
        f"{method.label}, {point}": {
            **{measure: round(over.mean.mean, 4) for measure, over in at.measures.items()},
            "pooled": round(at.pooled.mean, 4),
        }
        for method in summary.methods
        for point, at in method.points.items()
    }
    alone = {
        f"{one.method}, {one.point}, {one.measure}": {
            "overall": interval(one.overall),
            **({site: interval(each) for site, each in one.sites.items()} if one.method.startswith(OURS) else {}),
        }
        for one in summary.to_reference
    }
    return {"means": means, "against own data only": alone}


def interval(found: object) -> list[float | None]:
    """Mean, low, high."""
    values = (getattr(found, name) for name in ("mean", "low", "high"))
    return [None if value is None else round(value, 4) for value in values]


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/secureproto-heart"))  # noqa: S108 - resumable
    parser.add_argument("--tune", action="store_true")
    arguments = parser.parse_args()
    if arguments.tune:
        choose(arguments.work)
        return
    result: dict[str, object] = {"seeds": arguments.seeds, "splits": arguments.splits}
    for name, repeated in (("FLamby's split", False), ("repeated splits", True)):
        print(name, file=sys.stderr)
        found = perform(request(arguments, repeated=repeated), Reporting(), lambda _: None)
        result[name] = told(found.summary)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    print(text)
    (Path(__file__).parent / "results" / "heart.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
