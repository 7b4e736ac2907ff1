"""Which relation personalises everywhere: its options on six partitions, from alike sites to two classes a site.

`python ops/bench/relation.py [--work DIR] [--seeds 3]` prints JSON and writes ops/bench/results/relation.json. About
ten minutes; it goes on where it was stopped. Written up in ops/decisions/0008.

scikit-learn's digits over 10 sites (the study file that comes with the set, 25 rounds) in five partitions, and the
four hospitals in repeated splits (5 times the seeds). Nothing is chosen by test records: what the default was chosen
by is the mean over the sites of the accuracy on validation records (a fifth of each site's training records), as
received and after local training; test scores stand beside it.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from secureproto.simulation.command import session
from secureproto.simulation.data.catalogue import example_study
from secureproto.simulation.history import RECEIVED, TEST, TUNED, VALIDATION, History
from secureproto.simulation.planning import Asked

OURS = "protoaligned"
OPTIONS = {
    "patent: presence, row_sum": "representation=presence:normalisation=row_sum",
    "prior, row_sum": "normalisation=row_sum",
    "prior, power 8": "normalisation=power:power=8",
    "presence, softmax 0.02": "representation=presence:normalisation=softmax:temperature=0.02",
    "prior, softmax 0.03": "normalisation=softmax:temperature=0.03",
    "prior, softmax 0.1": "normalisation=softmax:temperature=0.1",
    "prior, softmax 0.3": "normalisation=softmax:temperature=0.3",
    "own head": "normalisation=softmax:temperature=1e-06",
    "prior, evidence 0.5": "normalisation=evidence:evidence_scale=0.5",
    "prior, evidence 0.8": "normalisation=evidence:evidence_scale=0.8",
    "prior, evidence 1.25": "normalisation=evidence:evidence_scale=1.25",
    "presence, evidence 0.8": "representation=presence:normalisation=evidence:evidence_scale=0.8",
    "prior, evidence 0.8, μ 0": "normalisation=evidence:evidence_scale=0.8:alignment_weight=0.0",
    "prior, evidence 0.8, μ 0.1": "normalisation=evidence:evidence_scale=0.8:alignment_weight=0.1",
    "prior, evidence 0.8, μ 10": "normalisation=evidence:evidence_scale=0.8:alignment_weight=10.0",
    "prior, evidence 0.8, warm-up 10": "normalisation=evidence:evidence_scale=0.8:alignment_warmup_rounds=10",
}
PARTITIONS = ("iid", "dirichlet:1", "dirichlet:0.1", "fedpac:20:3", "pathological:2")


def asked(partition: str, seeds: int) -> Asked:
    """One experiment."""
    labels = tuple(f"{OURS}:{text}" for text in OPTIONS.values())
    if partition == "hospitals":
        return Asked(
            study=example_study("heart"),
            data=("heart",),
            repeated=True,
            test_share=0.34,
            validation=0.2,
            seeds=5 * seeds,
            evaluate_every=100,
            methods=labels,
            choice=False,  # what is compared are the two points of the version
        )
    return Asked(
        study=example_study("digits"),
        data=("digits",),
        partition=partition,
        sites=10,
        per_site=80 if partition.startswith("fedpac") else None,
        rounds=25,
        validation=0.2,
        seeds=seeds,
        evaluate_every=100,
        methods=labels,
        choice=False,
    )


def mean(histories: Sequence[History], point: str, part: str) -> float:
    """Mean accuracy over sites and seeds after the last round."""
    last = [site for one in histories for site in one.rounds[-1].sites.values()]
    return round(fmean(site.points[point][part].accuracy for site in last if part in site.points[point]), 4)


def measure(partition: str, arguments: argparse.Namespace) -> dict[str, Mapping[str, float]]:
    """Scores by option."""
    request = asked(partition, arguments.seeds)
    with session(request, arguments.work / partition.replace(":", "-"), lambda _: None) as opened:
        for label in request.labels:
            for seed in request.seed_numbers:
                opened.go(label, seed)
            print(f"{partition}: {label}", file=sys.stderr, flush=True)
        histories = opened.experiment.histories()
    return {
        name: {
            f"{part} {point}": mean([one for one in histories if one.method == f"{OURS}:{text}"], point, part)
            for part in (VALIDATION, TEST)
            for point in (RECEIVED, TUNED)
        }
        for name, text in OPTIONS.items()
    }


def behind_best(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """By option: the mean over the partitions, and how far it is at most behind the best option of a partition.

    Of the validation accuracy, mean of both points.
    """
    both = {
        partition: {
            name: fmean((at[f"{VALIDATION} {RECEIVED}"], at[f"{VALIDATION} {TUNED}"])) for name, at in by.items()
        }
        for partition, by in found.items()
    }
    return {
        name: {
            "mean": round(fmean(by[name] for by in both.values()), 4),
            "most behind": round(max(max(by.values()) - by[name] for by in both.values()), 4),
        }
        for name in OPTIONS
    }


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/secureproto-relation"))  # noqa: S108 - resumable
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    found = {partition: measure(partition, arguments) for partition in (*PARTITIONS, "hospitals")}
    result = {"seeds": arguments.seeds, "summary": behind_best(found), "partitions": found}
    print(json.dumps(result, indent=1, ensure_ascii=False))
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    (Path(__file__).parent / "results" / "relation.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
