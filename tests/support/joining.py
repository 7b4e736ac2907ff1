"""A run on a cluster that is there: `python -m support.joining HOST:PORT` prints the digest of what it left."""

import sys
from hashlib import sha256

from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.engines import ray
from secureproto.simulation.engines.ray import RayEngine
from secureproto.simulation.engines.seam import Engine
from secureproto.simulation.run import Run
from secureproto.simulation.store import RunStore
from support.learning import tabular_study
from support.simulated import arrays_of, population


def digest(engine: Engine) -> str:
    """Of all arrays that a small run leaves."""
    sites, store = population(12, 20, 9), RunStore()
    try:
        Run(FedAvg(tabular_study(rounds={"total": 1})), sites, engine, store).go()
        return sha256(repr(arrays_of(store, sites)).encode()).hexdigest()
    finally:
        store.close()


if __name__ == "__main__":
    ray.PATIENCE = 120.0  # a machine of tests may be busy
    engine = RayEngine(sys.argv[1], 1)
    sys.stdout.write(digest(engine))
    engine.close()
