"""Aggregating 10 and 40 sealed uploads of 100 MiB: time per byte flat, memory that does not grow with the sites.

`python ops/bench/aggregate_uploads.py [--sites 10 40] [--repeats 3]` prints JSON and writes
ops/bench/results/aggregate_uploads.json. Needs 6 GB below the temporary directory, which it empties. Exits with 1
when time per byte differs by more than 15 %, when a run takes over 2.5 model sizes above the idle process, or when
the result is not, to the last bit, what whole arrays in NumPy give.

The model is 100 MiB in float32, the wire's dtype; "model size" here is the same model in float64, in which the server
sums: 200 MiB. Each upload is received as the server receives it (manifest, body, decrypting pass, receipt) but for
the socket; four bodies are shared out among the sites, each sealed anew by its own site. Measured is the server's own
`aggregate.run` on its own state directory, in a fresh process each time: sealed blob on the disk, decrypt, stream,
accumulate, mix, seal the new version. `aggregate_…` is up to the round's result and is what must be flat;
`run_…` has the sealing and publishing of the new version in it, which costs the same for any number of sites. Times
are CPU seconds, the best of several runs, taken in turn. `resident` counts from /proc/self/status.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from aggregate_uploads_state import BODIES, SIDE, STUDY, TENSORS, Arrays, counts, extractor, server
from numpy.typing import NDArray

from secureproto_server import aggregate, releases, studies, vault
from secureproto_server.phases import Phase
from secureproto_server.services import Services
from secureproto_server.storage.records import Study

MODEL_MIB = TENSORS * SIDE * SIDE * 8 / 2**20  # in float64
FLAT, MOST_SIZES = 0.15, 2.5


def main() -> int:
    """Prepare, measure in turn, judge, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, nargs=2, default=[10, 40])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read by NumPy when it is loaded: start again with it
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OPENBLAS_NUM_THREADS": "1"})  # noqa: S606  # our own command line
    few, many = arguments.sites
    with tempfile.TemporaryDirectory(prefix="aggregate-uploads-") as scratch:
        places = {count: Path(scratch) / str(count) for count in (few, many)}
        for count, place in places.items():
            child("aggregate_uploads_state.prepare", place, count)
        found_: dict[int, list[dict[str, Any]]] = {count: [] for count in places}
        for _ in range(arguments.repeats):
            for count, place in places.items():
                shutil.copyfile(place / "server.db", place / "federation/server/state/server.db")
                found_[count].append(child("aggregate_uploads.measure", place, count))
    runs = [best(count, results) for count, results in found_.items()]
    ratio = runs[1]["aggregate_ns_per_byte"] / runs[0]["aggregate_ns_per_byte"]
    report = {
        "bench": "aggregate_uploads",
        "upload_mib_float32": MODEL_MIB / 2,
        "model_mib_float64": MODEL_MIB,
        "runs": runs,
        "time_per_byte_ratio": round(ratio, 3),
        "run_time_per_byte_ratio": round(runs[1]["run_ns_per_byte"] / runs[0]["run_ns_per_byte"], 3),
        "most_deviation": FLAT,
        "most_model_sizes": MOST_SIZES,
        "passed": abs(ratio - 1) <= FLAT
        and all(run["peak_model_sizes"] <= MOST_SIZES and run["exact"] for run in runs),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__},
    }
    text = json.dumps(report, indent=2)
    print(text)
    (Path(__file__).parent / "results" / "aggregate_uploads.json").write_text(text + "\n", encoding="utf-8")
    return 0 if report["passed"] else 1


def child(step: str, place: Path, count: int) -> Any:
    """One step in a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {step.partition('.')[0]}; {step}({str(place)!r}, {count})"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def best(count: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """The shortest times and the highest peak of several runs at one size."""
    size = results[0]["ciphertext_bytes"]
    shortest = {key: min(r[key] for r in results) for key in ("aggregate_seconds", "run_seconds", "run_wall_seconds")}
    peak = max(r["peak_mib"] - r["idle_mib"] for r in results)
    return {
        "sites": count,
        "ciphertext_bytes": size,
        **{key: round(value, 3) for key, value in shortest.items()},
        "aggregate_ns_per_byte": round(shortest["aggregate_seconds"] / size * 1e9, 3),
        "run_ns_per_byte": round(shortest["run_seconds"] / size * 1e9, 3),
        "idle_mib": round(results[0]["idle_mib"], 1),
        "peak_mib_above_idle": round(peak, 1),
        "peak_model_sizes": round(peak / MODEL_MIB, 2),
        "exact": all(r["exact"] for r in results),
    }


def measure(directory: str, count: int) -> None:
    """The aggregation of the round, timed; then its result compared with whole arrays."""
    place, spent = Path(directory), list[float]()
    original = aggregate._aggregate

    def timed(services: Services, work: aggregate.Work) -> Any:
        begun = time.process_time()
        result = original(services, work)
        spent.append(time.process_time() - begun)
        return result

    with server(place) as services:
        idle = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark counts from here
        begun, wall = time.process_time(), time.perf_counter()
        with patch.object(aggregate, "_aggregate", timed):
            phase = aggregate.run(services, STUDY, 0)
        run_seconds, run_wall = time.process_time() - begun, time.perf_counter() - wall
        peak = resident("VmHWM")
        assert phase is Phase.PUBLISH, phase
        aggregate.complete(services, STUDY, 0)
        exact, size = as_numpy_has_it(services, count), sum(blob_sizes(services, count))
    result = {"aggregate_seconds": spent[0], "run_seconds": run_seconds, "run_wall_seconds": run_wall}
    print(json.dumps({**result, "idle_mib": idle, "peak_mib": peak, "exact": exact, "ciphertext_bytes": size}))


def blob_sizes(services: Services, count: int) -> Iterator[int]:
    """Bytes of each stored upload."""
    for number in range(count):
        yield services.blobs.size(f"upload.{STUDY}.0.site-{number:02d}") or 0


def as_numpy_has_it(services: Services, count: int) -> bool:
    """Whether the first and the last tensor published are the mean, summed in the order of the sites' names."""
    with services.store.transaction("read version") as tx:
        row, published = tx.get(Study, STUDY), releases.require_published(tx, STUDY, 1)
        assert row is not None
    plan = studies.PLANS.of(row)
    arrays = vault.arrays(plan.shared_schema, vault.open_chunks(services, published.blob, published.manifest))
    bodies = [extractor(number) for number in range(BODIES)]
    ends = ("extractor.layer00", f"extractor.layer{TENSORS - 1:02d}")
    return all(np.array_equal(arrays[name], mean(bodies, name, count)) for name in ends)


def mean(bodies: list[Arrays], name: str, count: int) -> NDArray[np.float32]:
    """Σ n_i φ_i / Σ n_i in float64, then as the wire has it."""
    total, weights = np.zeros((SIDE, SIDE)), [float(counts(number).sum()) for number in range(count)]
    for number, weight in enumerate(weights):
        total += bodies[number % BODIES][name].astype(np.float64) * weight
    return (total / sum(weights)).astype(np.float32)


def resident(key: str) -> float:
    """VmRSS or VmHWM of this process in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return int(values[key].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
