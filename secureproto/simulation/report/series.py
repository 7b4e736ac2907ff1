"""Curves over rounds: a number of each round, its mean over seeds and how far seeds lie apart.

Invariant: only runs that ended are in a mean, and only rounds that all of them have, so that a curve does not jump
where a run ends.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from secureproto.simulation.history import TEST, History, RoundRecord, SiteRound
from secureproto.simulation.results.comparing import value
from secureproto.simulation.results.reported import scored
from secureproto.simulation.statistics import Measure

Number = Callable[[RoundRecord], float | None]


@dataclass(frozen=True, eq=False)
class Series:
    """A curve: `rounds`, the mean over `seeds` runs, and their standard deviation (None with one run)."""

    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64] | None
    seeds: int


def over_rounds(runs: Sequence[History], number: Number) -> Series | None:
    """The curve of a number over the runs of one method that ended; None where they have no round in common."""
    found = [points for history in runs if history.complete and (points := of_run(history, number))]
    if not found:
        return None
    rounds = sorted(set.intersection(*(set(points) for points in found)))
    if not rounds:
        return None
    values = np.array([[points[r] for r in rounds] for points in found])
    deviation = values.std(axis=0, ddof=1) if len(found) > 1 else None
    return Series(np.array(rounds), values.mean(axis=0), deviation, len(found))


def of_run(history: History, number: Number) -> dict[int, float]:
    """The finite values of a number, by round."""
    found = {record.number: number(record) for record in history.rounds}
    return {r: at for r, at in sorted(found.items()) if at is not None and isfinite(at)}


def mean_score(point: str, measure: Measure) -> Number:
    """Mean over sites of a measure on test records, in rounds that were scored."""

    def number(record: RoundRecord) -> float | None:
        return _mean(value(at, measure) for at in scored(record, point, TEST).values())

    return number


def of_training(name: str) -> Number:
    """Mean over sites of a field of `SiteRound` that local training measured."""

    def number(record: RoundRecord) -> float | None:
        return _mean(_finite(at, name) for at in record.sites.values())

    return number


def _finite(at: SiteRound, name: str) -> float | None:
    found: float | None = getattr(at, name)
    return found if found is not None and isfinite(found) else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [found for found in values if found is not None]
    return fmean(known) if known else None
