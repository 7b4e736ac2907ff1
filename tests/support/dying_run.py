"""A run of a simulation that meets its end, or a signal, at a moment that is counted: for tests of what is left.

A moment is right before or right after a statement of the store, or a site's training. All of a run's moments are
numbered from 0; `strike` says what happens at one of them.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from secureproto.simulation.baselines.local import Local
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.engines.seam import Done, Job, Work
from secureproto.simulation.history import History
from secureproto.simulation.method import Method
from secureproto.simulation.run import Run
from secureproto.simulation.store import RunStore
from support.learning import tabular_study
from support.simulated import ArrayBytes, arrays_of, history_of, population

STUDY = tabular_study(rounds={"total": 2, "participation": 0.7}, training={"local_epochs": 1})
SITES = population(5, 8, 3)
METHODS: dict[str, type[Local] | type[ProtoAligned]] = {"local": Local, "protoaligned": ProtoAligned}
Left = tuple[ArrayBytes, History]


class Moments:
    """Counts moments; `strike` is called at the one of number `point`."""

    def __init__(self, point: int = -1, strike: Callable[[], None] = lambda: None) -> None:
        self.passed, self._point, self._strike = 0, point, strike

    def one(self) -> None:
        self.passed += 1
        if self.passed - 1 == self._point:
            self._strike()


class CountedStore(RunStore):
    """A store whose statements are moments, from when it has been opened."""

    moments = Moments()

    def _all(self, statement: str, *values: object) -> list[Any]:
        self.moments.one()
        rows = super()._all(statement, *values)
        self.moments.one()
        return rows


class CountedEngine(InProcess):
    """An engine whose trainings are moments."""

    def __init__(self, moments: Moments) -> None:
        super().__init__()
        self._moments = moments

    def perform(self, work: Work, jobs: Iterable[Job]) -> Iterator[Done]:
        for done in super().perform(work, jobs):
            self._moments.one()
            yield done
            self._moments.one()


def play(path: Path, name: str, moments: Moments) -> None:
    """A run of the method of that name, to its end or until `moments` strikes."""
    store = CountedStore(path)
    store.moments = moments
    try:
        Run(method(name), SITES, CountedEngine(moments), store).go()
    finally:
        store.moments = Moments()
        store.close()


def method(name: str) -> Method:
    """Over the study of these tests."""
    return METHODS[name](STUDY)


def left(path: Path) -> Left:
    """What is there after a run."""
    store = RunStore(path)
    try:
        return arrays_of(store, SITES), history_of(store)
    finally:
        store.close()


def play_until_signal(path: str, name: str, point: int, signal_number: int) -> None:
    """In a process of its own: it sends itself a signal at a moment. Ends with 130 after Ctrl-C."""
    try:
        play(Path(path), name, Moments(point, lambda: os.kill(os.getpid(), signal_number)))
    except KeyboardInterrupt:
        sys.exit(130)
