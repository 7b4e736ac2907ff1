"""Methods × partitions: one table a measure, for a page of several partitions.

Invariant: best marks are within a column and a point; the mean over partitions is not ranked.
"""

from collections.abc import Sequence

from secureproto.simulation.report.tables import DASH, Cell, Table, score
from secureproto.simulation.report.words import POINT_NAMES, headed, measure_name
from secureproto.simulation.results import Part, across
from secureproto.simulation.results.parts import Across, of_one_kind
from secureproto.simulation.results.reported import POINTS
from secureproto.simulation.results.terminal import mean_of
from secureproto.simulation.statistics import MEASURES, Measure


def by_partition(parts: Sequence[Part]) -> list[Table]:
    """A table for each measure that is defined anywhere: a column a partition, the methods at each point under each
    other, so that it is no wider than the page and as chosen are only those that choose."""
    found = across(parts)
    return [
        _table(parts, [one for one in found if one.measure == measure], measure)
        for measure in MEASURES
        if any(one.measure == measure for one in found)
    ]


def averaging(parts: Sequence[Part]) -> str:
    """What the mean over partitions is, or why there is none."""
    if not of_one_kind(parts):
        return "Data, study, rounds or ways to choose differ between the partitions, so no mean over them is taken."
    return (
        f"“{mean_of(parts)}” is the plain mean of the columns before it, for methods that have them all. It tells "
        "how a method does over this choice of partitions; it is not ranked and has no interval."
    )


def _table(parts: Sequence[Part], found: Sequence[Across], measure: Measure) -> Table:
    averaged = of_one_kind(parts)
    by_point = {point: [one for one in found if one.point == point] for point in POINTS}
    return Table(
        caption=f"{headed(measure_name(measure))} on test records, by partition",
        groups=(),
        columns=("method", *(part.name for part in parts), *((mean_of(parts),) if averaged else ())),
        rows=tuple((Cell(one.method), *_cells(one, averaged)) for at in by_point.values() for one in at),
        bodies=tuple((POINT_NAMES[point], len(at)) for point, at in by_point.items() if at),
    )


def _cells(one: Across, averaged: bool) -> list[Cell]:
    cells = [score(over, best=name in one.best) for name, over in one.by_part.items()]
    if not averaged:
        return cells
    whole = all(over is None or over.defined == over.of for over in one.by_part.values())
    return [*cells, Cell(DASH) if one.mean is None else Cell(f"{one.mean:.3f}", "" if whole else "not of all sites")]
