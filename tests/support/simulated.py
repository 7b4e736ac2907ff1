"""Simulated sites for the tests of runs and engines: a small population, what a run left, and methods that misbehave.

In a module of its own because processes of Ray import it by name.
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from secureproto.learning.arrays import Arrays, to_arrays
from secureproto.learning.losses import cross_entropy_loss
from secureproto.learning.model import Model, build
from secureproto.learning.seeding import round_generator
from secureproto.learning.training import Plan, train
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.engines.seam import Engine, Sites
from secureproto.simulation.history import TEST, History, Measured, RoundRecord
from secureproto.simulation.method import Method, Update, Visit
from secureproto.simulation.population import Pool, Population, SiteData, SiteRows
from secureproto.simulation.run import KEPT, PERSONAL, Run, RunOptions, history
from secureproto.simulation.shift import Shift
from secureproto.simulation.store import SHARED, RunStore
from secureproto.study.schema import StudyFile
from support.learning import blobs

ArrayBytes = dict[str, dict[str, tuple[Any, ...]]]


def population(*sizes: int, test: int = 6) -> Population:
    """Sites named site-0, … with so many training records each; each but the first sees its inputs shifted."""
    pool, rows, start = Pool(blobs(sum(sizes) + test * len(sizes))), dict[str, SiteRows](), 0
    for number, size in enumerate(sizes):
        own = np.arange(start, start + size + test)
        shift = Shift(gain=1.0, offset=0.1 * number) if number else None
        rows[f"site-{number}"] = SiteRows(own[test:], own[:test], shift=shift)
        start += size + test
    return Population(pool, rows)


def arrays_of(store: RunStore, sites: Sites) -> ArrayBytes:
    """All arrays that a run has left, to the last bit: by owner and name, with dtype and shape."""
    owners = [SHARED, PERSONAL, *(prefix + site for prefix in (PERSONAL, KEPT) for site in sites.names)]
    return {
        owner: {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in store.get(owner).items()} for owner in owners
    }


@dataclass(frozen=True, eq=False)
class Ended:
    """What a whole run has left: `personal` and `kept` by site, `history` but for the time it took."""

    shared: Arrays
    personal: dict[str, Arrays]
    kept: dict[str, Arrays]
    history: History

    def scores(self, point: str) -> dict[str, Measured]:
        """On the test records, after the last round."""
        return {site: found.points[point][TEST] for site, found in self.history.rounds[-1].sites.items()}


def ended(method: Method, sites: Sites, *, engine: Engine | None = None, options: RunOptions | None = None) -> Ended:
    """A whole run, in this process if no engine is given."""
    store = RunStore()
    try:
        Run(method, sites, engine or InProcess(), store, options).go()
        personal = {site: store.get(PERSONAL + site) or store.get(PERSONAL) for site in sites.names}
        kept = {site: store.get(KEPT + site) for site in sites.names}
        return Ended(store.get(SHARED), personal, kept, history_of(store))
    finally:
        store.close()


def trained_once(study: StudyFile, sites: Mapping[str, SiteData]) -> dict[str, Arrays]:
    """Each site's weights after its training in round 0, on cross entropy alone."""
    found = {}
    for site, data in sites.items():
        model = build(study)
        generator = round_generator(study, site=site, round_number=0)
        loss = cross_entropy_loss(model.classes, model.embedding_width)
        train(model, data.train, plan=Plan(study.training, loss), generator=generator)
        found[site] = to_arrays(model)
    return found


def history_of(store: RunStore) -> History:
    """What a run has left of scores and losses, but for the time it took."""
    found = history(store, method="m", title="M", seed=0)
    return found.model_copy(update={"rounds": tuple(timeless(record) for record in found.rounds)})


def timeless(record: RoundRecord) -> RoundRecord:
    """A record without its seconds."""
    sites = {name: site.model_copy(update={"seconds": 0.0}) for name, site in record.sites.items()}
    return record.model_copy(update={"sites": sites, "seconds": 0.0})


@dataclass(frozen=True)
class Deadly(FedAvg):
    """FedAvg, whose training ends its process by SIGKILL: of `victim`, as long as `marker` does not exist."""

    victim: str = ""
    marker: str = "/nowhere/marker"

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        if visit.site == self.victim and not Path(self.marker).exists():
            if Path(self.marker).parent.exists():
                Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train(model, data, visit)


@dataclass(frozen=True)
class Wrong(FedAvg):
    """FedAvg with a fault of its program."""

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        raise ZeroDivisionError(f"at {visit.site}")


@dataclass(frozen=True)
class Slow(FedAvg):
    """FedAvg that takes `seconds` longer at the `victims`, or at every site; whoever trains a site leaves the file
    SITE.PROCESS in `place`."""

    seconds: float = 0.0
    victims: tuple[str, ...] = ()
    place: str = ""

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        if self.place:
            (Path(self.place) / f"{visit.site}.{os.getpid()}").touch()
        if not self.victims or visit.site in self.victims:
            for _ in range(round(100 * self.seconds)):  # as training, it can be interrupted between steps
                sleep(0.01)
        return super().train(model, data, visit)
