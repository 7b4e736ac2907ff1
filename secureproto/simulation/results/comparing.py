"""Paired comparisons of methods: the difference over the seeds that both completed, over all sites and at each.

Invariant: both sides of a difference have the same seed, the same sites and the same test records.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from secureproto.simulation.history import CHOSEN, TUNED, Measured
from secureproto.simulation.results.reported import Reported
from secureproto.simulation.statistics import MEASURES, Interval, Measure, paired

Points = Mapping[str, Mapping[int, Reported]]  # by point, then seed
Runs = Mapping[str, Points]  # by method


@dataclass(frozen=True)
class Counts:
    """Sites of a comparison. `gain`, `lose`: by the sign of the mean difference, by however little.

    `better`, `worse`: whose whole interval lies on that side of zero; `unclear`: whose interval holds zero;
    `no_interval`: that have none (`statistics.paired`). These four make up all sites but the undefined ones.
    """

    gain: int
    lose: int
    better: int
    worse: int
    unclear: int
    no_interval: int


@dataclass(frozen=True)
class Comparison:
    """`method` minus `other` at `point` by `measure`. `overall`: of the mean over the sites that have the measure in
    every seed. `sites`: at each site, over the seeds in which it has it.

    `undefined`: sites where the measure is defined in no common seed. Intervals as `statistics.paired` has them.
    """

    method: str
    other: str
    point: str
    measure: Measure
    seeds: tuple[int, ...]
    overall: Interval
    sites: Mapping[str, Interval]
    counts: Counts
    undefined: tuple[str, ...]


def value(measured: Measured, measure: Measure) -> float | None:
    """A measure of a score; None where it is not defined."""
    found: float | None = getattr(measured, measure)
    return found if found is not None and isfinite(found) else None


def compare(
    runs: Runs, pair: tuple[str, str], *, point: str, measure: Measure, redrawn: float | None = None
) -> Comparison | None:
    """The comparison of pair[0] with pair[1]; None where they have no seed in common, or no site has the measure in
    all of those.

    Where `pair[1]` makes no choice of its own, a chosen model is held against its tuned one.
    """
    method, other = pair
    mine, theirs = runs[method].get(point, {}), runs[other].get(point, {})
    if point == CHOSEN and not theirs:
        theirs = runs[other].get(TUNED, {})
    by_seed = {
        seed: dict(_differences(mine[seed].scores, theirs[seed].scores, measure))
        for seed in sorted(set(mine) & set(theirs))
    }
    everywhere = set.intersection(*map(set, by_seed.values())) if by_seed else set[str]()
    if not everywhere:
        return None
    means = [fmean(found[site] for site in sorted(everywhere)) for found in by_seed.values()]
    overall = paired(means, redrawn=redrawn)
    names = sorted({site for run in mine.values() for site in run.scores})
    sites = {site: [found[site] for found in by_seed.values() if site in found] for site in names}
    intervals = {site: paired(found, redrawn=redrawn) for site, found in sites.items() if found}
    undefined = tuple(site for site in names if site not in intervals)
    counts = _counts(tuple(intervals.values()))
    return Comparison(method, other, point, measure, tuple(by_seed), overall, intervals, counts, undefined)


def _counts(intervals: Sequence[Interval]) -> Counts:
    known = [interval.sign for interval in intervals if interval.low is not None]
    return Counts(
        gain=sum(interval.mean > 0 for interval in intervals),
        lose=sum(interval.mean < 0 for interval in intervals),
        better=known.count(1),
        worse=known.count(-1),
        unclear=known.count(0),
        no_interval=len(intervals) - len(known),
    )


def _differences(
    mine: Mapping[str, Measured], theirs: Mapping[str, Measured], measure: Measure
) -> Iterator[tuple[str, float]]:
    for site in mine:
        if site in theirs:
            first, second = value(mine[site], measure), value(theirs[site], measure)
            if first is not None and second is not None:
                yield site, first - second


def to_reference(
    runs: Runs, reference: str, points: Sequence[str], redrawn: float | None = None
) -> tuple[Comparison, ...]:
    """Every other method against the reference, at every point and by every measure."""
    return tuple(
        found
        for method in runs
        if method != reference
        for point in points
        for measure in MEASURES
        if (found := compare(runs, (method, reference), point=point, measure=measure, redrawn=redrawn))
    )


def of_best(
    runs: Runs, best: Mapping[tuple[str, Measure], tuple[str, ...]], redrawn: float | None = None
) -> tuple[Comparison, ...]:
    """The best method at a point by a measure, the first of equals, against every other that was scored there."""
    return tuple(
        found
        for (point, measure), (leader, *_) in best.items()
        for other in runs
        if other != leader and runs[other].get(point)
        if (found := compare(runs, (leader, other), point=point, measure=measure, redrawn=redrawn))
    )
