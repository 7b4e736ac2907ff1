"""The four hospitals under differential privacy: FLamby's split at (5, 1e-3) and (1, 1e-3), all releases charged.

    python ops/bench/heart_private.py --tune
    python ops/bench/heart_private.py [--seeds 10]

Required: mean accuracy 0.82 at ε 5 and 0.80 at ε 1, balanced accuracy 0.77 at both, of the version as received.
`--tune` tries rounds × learning rates at each ε on FLamby's training patients alone, a fifth of them to choose by,
and writes what has the highest mean of accuracy and balanced accuracy there to `results/heart_private_tuning.json`;
the runs then use that. Noise: the least that keeps ε over all rounds, a fifth of the budget for prototypes. Minutes.

Tuning is on training records and would be charged in a federation; it is not here, nor in the published figures.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from secureproto.simulation.command import Reporting, Request, perform
from secureproto.simulation.heart.hospitals import study_path
from secureproto.simulation.history import RECEIVED, TEST, VALIDATION

RESULTS = Path(__file__).parent / "results"
TUNING, FOUND = RESULTS / "heart_private_tuning.json", RESULTS / "heart_private.json"
REQUIRED = {5.0: (0.82, 0.77), 1.0: (0.80, 0.77)}  # ε → accuracy, balanced accuracy
DELTA = 1e-3
ROUNDS = (5, 10, 20, 30)
RATES = (0.2, 0.4, 0.8, 1.6)
TUNING_SEEDS = 3
PRIVACY = """
[privacy]
max_epsilon_study = 5.0
max_delta = {delta}
[privacy.training]
noise_multiplier = 8.0
max_grad_norm = 1.0
sample_rate = 0.5
steps = 4
expected_batch = 80
learning_rate = {rate}
[privacy.prototypes]
noise_multiplier = 20.0
"""


def study(directory: Path, rate: float) -> Path:
    """The installed study with privacy."""
    text = study_path().read_text()
    text = text.replace("embedding_width = 16", "embedding_width = 16\nnormalise_embedding = true")
    path = directory / f"heart-{rate}.toml"
    path.write_text(text + PRIVACY.format(delta=DELTA, rate=rate))
    return path


def runs(directory: Path, epsilon: float, rounds: int, rate: float, seeds: int, validation: float) -> list[object]:
    """The sites' last scores of each seed."""
    request = Request(
        study=study(directory, rate),
        data=("heart",),
        split="given",
        validation=validation,
        methods=(f"protoaligned:epsilon={epsilon:g}",),
        without_baselines=True,
        models=False,
        choice=False,
        rounds=rounds,
        evaluate_every=rounds,
        seeds=seeds,
    )
    reporting = Reporting(reference=f"protoaligned:epsilon={epsilon:g}")
    return [history.rounds[-1].sites for history in perform(request, reporting, lambda _: None).parts[0].histories]


def scores(found: list[object], part: str) -> tuple[float, float, float]:
    """Mean accuracy, balanced accuracy and AUC over sites, then seeds, as received."""
    columns = []
    for sites in found:
        assert isinstance(sites, dict)
        measured = [site.points[RECEIVED][part] for site in sites.values()]
        rows = [[m.accuracy, m.balanced_accuracy, m.auc] for m in measured]
        columns.append([fmean(v for v in column if v is not None) for column in zip(*rows, strict=True)])
    accuracy, balanced, auc = (fmean(column) for column in zip(*columns, strict=True))
    return accuracy, balanced, auc


def tune(directory: Path) -> None:
    """Every candidate at each ε on validation records, and the best of them."""
    chosen = {}
    for epsilon in REQUIRED:
        tried = []
        for rounds in ROUNDS:
            for rate in RATES:
                found = runs(directory, epsilon, rounds, rate, TUNING_SEEDS, 0.2)
                accuracy, balanced, _ = scores(found, VALIDATION)
                tried.append({"rounds": rounds, "rate": rate, "accuracy": accuracy, "balanced": balanced})
                print(epsilon, tried[-1], file=sys.stderr, flush=True)
        best = max(tried, key=lambda one: one["accuracy"] + one["balanced"])
        chosen[f"{epsilon:g}"] = {"chosen": best, "tried": tried}
    TUNING.write_text(json.dumps(chosen, indent=1) + "\n")


def main() -> int:
    """As the module says; 1 when a figure is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    with TemporaryDirectory() as name:
        if arguments.tune:
            tune(Path(name))
        tuned, found = json.loads(TUNING.read_text()), {}
        for epsilon, (accuracy, balanced) in REQUIRED.items():
            best = tuned[f"{epsilon:g}"]["chosen"]
            ran = runs(Path(name), epsilon, best["rounds"], best["rate"], arguments.seeds, 0.0)
            had = scores(ran, TEST)
            found[f"{epsilon:g}"] = {
                "delta": DELTA,
                "rounds": best["rounds"],
                "learning_rate": best["rate"],
                "seeds": arguments.seeds,
                "accuracy": round(had[0], 4),
                "balanced_accuracy": round(had[1], 4),
                "auc": round(had[2], 4),
                "required": {"accuracy": accuracy, "balanced_accuracy": balanced},
                "met": had[0] >= accuracy and had[1] >= balanced,
            }
    FOUND.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0 if all(one["met"] for one in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
