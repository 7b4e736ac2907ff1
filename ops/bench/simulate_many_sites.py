"""Simulating 200 and 2,000 sites, 50 of them a round: memory that does not grow with the sites' models.

`python ops/bench/simulate_many_sites.py [--sites 200 2000] [--rounds 4]` prints JSON and writes
ops/bench/results/simulate_many_sites.json. Exits with 1 when the process that holds a run takes over ROOM more for
the many sites than for the few, with either engine, or when the two engines' numbers differ in a bit.

All sites together hold the same 20,000 records, so that what grows is the number of models alone: 0.4 MiB each. The
method is `local`, whose sites keep theirs from round to round. In each round 50 are trained; after the last, all of
them once more, to be scored: that round would show whatever holds on to results. Each figure is of a fresh process,
and of the one that holds the run, not of Ray's others. `peak_mib`: the most that it had of its own (RssAnon), above
what it had when records and engine were there; `shared_mib`: the most that it had in sight of Ray's object store
(RssShmem); both sampled. `seconds`: wall, without the engine's start. `store_mib`: the run on the disk.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from secureproto.learning.dataset import Records
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.engines.ray import RayEngine
from secureproto.simulation.engines.seam import Engine
from secureproto.simulation.population import Pool, Population, SiteRows
from secureproto.simulation.run import KEPT, Run, RunOptions
from secureproto.simulation.store import RunStore
from secureproto.study.schema import StudyFile

RECORDS, WIDTH, CLASSES, A_ROUND, WORKERS = 20_000, 64, 10, 50, 2
MODEL_MIB = (WIDTH * 512 + 512 + 512 * 128 + 128 + 128 * CLASSES + CLASSES) * 4 / 2**20
ROOM = 32.0  # MiB; 84 models, where 1,800 more sites have 688 MiB of them
SAMPLED = 0.005  # seconds
RESULT = Path(__file__).parent / "results" / "simulate_many_sites.json"


def main() -> int:
    """Measure each in a process of its own, judge, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, nargs=2, default=[200, 2000])
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    few, many = arguments.sites
    runs = {
        (engine, sites): child(engine, sites, arguments.rounds)
        for engine in ("inprocess", "ray")
        for sites in (few, many)
    }
    growth = {
        engine: round(total(runs[engine, many]) - total(runs[engine, few]), 1) for engine in ("inprocess", "ray")
    }
    equal = all(runs["inprocess", sites]["digest"] == runs["ray", sites]["digest"] for sites in (few, many))
    report = {
        "bench": "simulate_many_sites",
        "records": RECORDS,
        "rounds": arguments.rounds,
        "sites_a_round": A_ROUND,
        "model_mib": round(MODEL_MIB, 3),
        "runs": [
            {"engine": engine, "sites": sites, "all_models_mib": round(sites * MODEL_MIB, 1), **found}
            for (engine, sites), found in runs.items()
        ],
        "growth_mib": growth,
        "most_growth_mib": ROOM,
        "numbers_equal": equal,
        "passed": equal and max(growth.values()) <= ROOM,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__},
    }
    text = json.dumps(report, indent=2)
    print(text)
    RESULT.write_text(text + "\n", encoding="utf-8")
    return 0 if report["passed"] else 1


def total(run: dict[str, Any]) -> float:
    """All memory that a run's process had in sight."""
    return float(run["peak_mib"] + run["shared_mib"])


def child(engine: str, sites: int, rounds: int) -> Any:
    """One measurement in a process of its own; what it printed."""
    code = f"import simulate_many_sites; simulate_many_sites.measure({engine!r}, {sites}, {rounds})"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def measure(name: str, sites: int, rounds: int) -> None:
    """A whole run, and the memory that this process had in it."""
    population, method = divided(sites), Local(study(sites, rounds))
    engine: Engine = InProcess() if name == "inprocess" else RayEngine(None, WORKERS)
    try:
        with tempfile.TemporaryDirectory(prefix="simulate-many-sites-") as place:
            store = RunStore(Path(place) / "run.sqlite")
            run = Run(method, population, engine, store, RunOptions(evaluate_every=rounds + 1))
            watch = Watch()
            begun = time.perf_counter()
            run.go()
            seconds = time.perf_counter() - begun
            peak, shared = watch.end()
            digest = digest_of(store, population)
            store.close()
            size = sum(path.stat().st_size for path in Path(place).iterdir()) / 2**20
    finally:
        engine.close()
    result = {"peak_mib": round(peak, 1), "shared_mib": round(shared, 1), "seconds": round(seconds, 1)}
    print(json.dumps({**result, "store_mib": round(size, 1), "digest": digest}))


class Watch:
    """Looks at this process's memory in the background."""

    def __init__(self) -> None:
        self._idle, self._peak, self._shared = resident("RssAnon"), 0.0, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(SAMPLED):
            self._peak = max(self._peak, resident("RssAnon"))
            self._shared = max(self._shared, resident("RssShmem"))

    def end(self) -> tuple[float, float]:
        """(most of its own above the beginning, most in sight of shared memory), MiB."""
        self._over.set()
        self._thread.join()
        return self._peak - self._idle, self._shared


def resident(key: str) -> float:
    """A figure of /proc/self/status in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in lines)[key].split()[0]) / 1024


def study(sites: int, rounds: int) -> StudyFile:
    """50 of the sites a round, one epoch each."""
    return StudyFile.model_validate(
        {
            "name": "many-sites",
            "classes": [f"class {j}" for j in range(CLASSES)],
            "model": {"name": "mlp", "embedding_width": 128, "hidden": [512], "seed": 0},
            "data": {
                "kind": "tabular",
                "features": [{"kind": "number", "name": f"x{i}", "min": -1.0, "max": 1.0} for i in range(WIDTH)],
                "label": {"column": "y"},
            },
            "training": {"local_epochs": 1, "batch_size": 32, "learning_rate": 0.05},
            "rounds": {"total": rounds, "quorum": A_ROUND, "participation": A_ROUND / sites, "deadline": "10m"},
        }
    )


def divided(sites: int) -> Population:
    """The same records for any number of sites; a fifth of each site's are to be scored on."""
    numbers = np.random.default_rng(0)
    y = np.arange(RECORDS, dtype=np.int64) % CLASSES
    x = numbers.normal(size=(CLASSES, WIDTH))[y] + numbers.normal(size=(RECORDS, WIDTH))
    rows = np.array_split(np.arange(RECORDS), sites)
    parts = {f"site-{n:04d}": SiteRows(own[len(own) // 5 :], own[: len(own) // 5]) for n, own in enumerate(rows)}
    return Population(Pool(Records(x.astype(np.float32), y)), parts)


def digest_of(store: RunStore, population: Population) -> str:
    """Of all models that are kept, and of all scores."""
    found = sha256()
    for site in population.names:
        for name, array in store.get(KEPT + site).items():
            found.update(f"{site} {name}".encode() + array.tobytes())
    for record in store.rounds():
        for site, done in record.sites.items():
            found.update(f"{record.number} {site} {done.points} {done.cross_entropy!r}".encode())
    return found.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
