"""The four hospitals: the method against its peers, on FLamby's split and on repeated ones.

`python ops/bench/heart.py [--seeds 10] [--splits 20] [--work DIR]` prints JSON and writes
ops/bench/results/heart.json; about ten minutes, goes on where it was stopped. Every method with the installed study's
training and its own defaults, nothing tuned; all training records are trained on, and the last round is reported. It
is what `secureproto simulate run` gives: means over the hospitals of the mean over seeds, `pooled` over all test
patients, and each method's difference from own data only, paired by seed, with its 95 % interval; for this project's
method by hospital too.
"""

import argparse
import json
import sys
from pathlib import Path

from secureproto.simulation.command import Reporting, Request, perform
from secureproto.simulation.data.catalogue import example_study
from secureproto.simulation.results import Summary

OURS = "protoaligned"
PEERS = ("fedavg", "fedprox", "fedper", "fedrep", "fedproto", "fedpac", "ditto")


def request(arguments: argparse.Namespace, *, repeated: bool) -> Request:
    """FLamby's split with several seeds, or a new split for each."""
    return Request(
        study=example_study("heart"),
        data=("heart",),
        repeated=repeated,
        test_share=0.34,  # FLamby's: 254 of 740
        methods=(*PEERS, OURS),
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
            **({site: interval(each) for site, each in one.sites.items()} if one.method == OURS else {}),
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
    arguments = parser.parse_args()
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
