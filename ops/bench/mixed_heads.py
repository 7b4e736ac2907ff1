"""Mixed heads for 200, 2,000 and 20,000 sites: the linear form against the matrix form.

`python ops/bench/mixed_heads.py [--largest 20000]` prints JSON and writes ops/bench/results/mixed_heads.json. Exits
with 1 when the two forms differ by more than 1e-10 of the largest entry.

10 classes, embedding width 64, head 650: the relation `prior`/`row_sum` of non-negative class sums. Both forms run in
this process, one after the other, with one BLAS thread; a time is CPU time, the best of several (of one at the
largest size for the matrix form), so that a busy machine changes little. What counts are the ratios. `growth` is the
exponent of time in the number of sites between two sizes. The matrix form makes the relation in blocks of rows: at
20,000 sites the whole of it would take 3.2 GB. `memory` is what a form took above its inputs (peak of the process;
the matrix form runs second, so its figure is what it needed beyond the linear form's peak).
"""

import argparse
import json
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.heads import BLOCK_BYTES, linear_is_cheaper, mix_by_rows, mix_linear
from secureproto.aggregation.options import Options
from secureproto.aggregation.relation import representations

CLASSES, WIDTH, HEAD = 10, 64, 650
TOLERANCE = 1e-10
F64 = NDArray[np.float64]


def peak_mib() -> float:
    """The process's peak resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def best(repeats: int, run: Callable[[], F64]) -> tuple[float, F64]:
    """The shortest of several runs in CPU seconds, and what it gave."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = run()
        times.append(time.process_time() - start)
    return min(times), result


def inputs(sites: int) -> tuple[F64, F64]:
    """Representations (m, C·d) of sites with a few dominant classes and some missing, and heads (m, H)."""
    generator = np.random.default_rng(sites)
    counts = generator.integers(0, 60, (sites, CLASSES)).astype(np.float64)
    sums = np.abs(generator.normal(size=(sites, CLASSES, WIDTH))) * counts[..., None]
    class_sums = np.concatenate([sums, counts[..., None]], axis=2)
    return representations(class_sums, "prior"), generator.normal(size=(sites, HEAD))


def measure(sites: int) -> dict[str, object]:
    """Both forms at one size."""
    values, heads = inputs(sites)
    repeats = 5 if sites <= 2000 else 1
    start = peak_mib()
    linear_seconds, linear = best(max(3, repeats), lambda: mix_linear(values, heads))
    between = peak_mib()
    matrix_seconds, matrix = best(repeats, lambda: mix_by_rows(values, heads, Options(normalisation="row_sum")))
    return {
        "sites": sites,
        "linear_seconds": round(linear_seconds, 5),
        "matrix_seconds": round(matrix_seconds, 5),
        "matrix_over_linear": round(matrix_seconds / linear_seconds, 2),
        "largest_difference": float(np.abs(linear - matrix).max() / np.abs(matrix).max()),
        "memory_linear_mib": round(between - start, 1),
        "memory_matrix_beyond_mib": round(peak_mib() - between, 1),
        "auto_takes": "linear" if linear_is_cheaper(sites, CLASSES * WIDTH, HEAD) else "matrix",
    }


def growth(runs: list[dict[str, object]], key: str) -> list[float]:
    """Exponents of time in the number of sites, from each size to the next."""
    exponents = []
    for small, large in pairwise(runs):
        times = float(str(large[key])) / float(str(small[key]))
        exponents.append(round(math.log(times) / math.log(int(str(large["sites"])) / int(str(small["sites"]))), 2))
    return exponents


def main() -> int:
    """Measure, print, write; 1 when the forms differ."""
    parser = argparse.ArgumentParser(description="Mixed heads: linear against matrix form.")
    parser.add_argument("--largest", type=int, default=20_000)
    largest = parser.parse_args().largest
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read by NumPy when it is loaded: start again with it
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OPENBLAS_NUM_THREADS": "1"})  # noqa: S606  # our own command line
    mix_linear(*inputs(50))  # threads and libraries are warm before the first measurement
    runs = [measure(sites) for sites in (200, 2_000, 20_000) if sites <= largest]
    passed = all(float(str(run["largest_difference"])) <= TOLERANCE for run in runs)
    report = {
        "bench": "mixed_heads",
        "classes": CLASSES,
        "width": WIDTH,
        "head": HEAD,
        "block_bytes": BLOCK_BYTES,
        "runs": runs,
        "growth_linear": growth(runs, "linear_seconds"),
        "growth_matrix": growth(runs, "matrix_seconds"),
        "tolerance": TOLERANCE,
        "passed": passed,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__},
    }
    text = json.dumps(report, indent=2)
    print(text)
    target = Path(__file__).parent / "results" / "mixed_heads.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text + "\n", encoding="utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
