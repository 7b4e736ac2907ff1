"""The tables of the page as texts, ready for the template.

Invariant: a number that is not there is a dash, never a zero.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from secureproto.simulation.report.costs import readable
from secureproto.simulation.report.words import POINT_NAMES, headed, measure_name, signed
from secureproto.simulation.results import AtPoint, Estimate, MethodSummary, OverSites, Summary
from secureproto.simulation.results.reported import POINTS
from secureproto.simulation.results.rows import comparison
from secureproto.simulation.results.summarise import best_methods
from secureproto.simulation.results.terminal import partial_text
from secureproto.simulation.statistics import Interval, Measure

DASH = "–"


@dataclass(frozen=True)
class Cell:
    """A text, more lines in small type under it, and whether it is the best of its column."""

    text: str
    small: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    """`groups`: (heading, number of columns) over `columns`; `bodies`: (heading, number of rows) before rows. Both
    are empty for none. The first cell of a row heads it."""

    caption: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    bodies: tuple[tuple[str, int], ...] = ()

    @property
    def parts(self) -> Iterator[tuple[str, tuple[tuple[Cell, ...], ...]]]:
        """The rows under each heading; all of them under an empty one where there is none."""
        rows = iter(self.rows)
        for heading, count in self.bodies or (("", len(self.rows)),):
            yield heading, tuple(islice(rows, count))


def by_measure(summary: Summary, measure: Measure) -> Table:
    """Mean, worst site, spread and the difference to the reference, at every point that a method was scored at."""
    points = _points(summary)
    best = best_methods(summary.methods) if len(summary.methods) > 1 else {}
    columns = ("mean", "worst", "spread", *(() if summary.reference is None else (f"vs {summary.reference}",)))
    rows = [
        (
            Cell(method.label),
            *(
                cell
                for point in points
                for cell in _of_point(summary, method, point, measure, best.get((point, measure), ()))
            ),
        )
        for method in summary.methods
    ]
    return Table(
        caption=f"{headed(measure_name(measure))} on test records",
        groups=tuple((POINT_NAMES[point], len(columns)) for point in points),
        columns=("method", *(columns * len(points))),
        rows=tuple(rows),
    )


def further(summary: Summary) -> Table:
    """What else there is on each method: runs, versions, pooled accuracy, rounds to the target, costs."""
    points = _points(summary)
    columns = ["method", "runs that ended", "reported round", *(f"pooled, {POINT_NAMES[point]}" for point in points)]
    columns += [] if summary.target is None else [f"rounds to accuracy {summary.target:g}"]
    columns += ["a site sent", "seconds a run"]
    rows = []
    for method in summary.methods:
        failed = sum(failure.method == method.label for failure in summary.failures)
        row = [Cell(method.label), Cell(f"{len(method.seeds)} of {len(method.seeds) + failed}")]
        row.append(Cell(_versions(method)))
        row += [mean(at.pooled if (at := method.points.get(point)) else None) for point in points]
        if summary.target is not None:
            row.append(_rounds(method))
        sent, seconds = method.bytes_sent, method.seconds
        row.append(Cell(DASH if sent is None else readable(sent.mean)))
        row.append(Cell(DASH if seconds is None else f"{seconds.mean:.1f}"))
        rows.append(tuple(row))
    return Table("Runs, pooled accuracy and costs", (), tuple(columns), tuple(rows))


def hyper_parameters(found: Mapping[str, Mapping[str, object]]) -> Table | None:
    """Methods with what they were run with."""
    if not found:
        return None
    rows = tuple(
        (Cell(label), Cell(", ".join(f"{key} = {_plain(value)}" for key, value in fields.items()) or DASH))
        for label, fields in found.items()
    )
    return Table("Methods and what they were run with", (), ("method", "settings"), rows)


def _points(summary: Summary) -> list[str]:
    return [point for point in POINTS if any(point in method.points for method in summary.methods)]


def _of_point(
    summary: Summary, method: MethodSummary, point: str, measure: Measure, best: tuple[str, ...]
) -> Iterator[Cell]:
    at: AtPoint | None = method.points.get(point)
    over: OverSites | None = None if at is None else at.measures.get(measure)
    yield score(over, best=method.label in best)
    yield Cell(DASH if over is None else f"{over.worst.mean:.3f}")
    yield Cell(DASH if over is None else f"{over.spread.mean:.3f}")
    if summary.reference is not None:
        gain = comparison(summary, method.label, point, measure)
        yield Cell(DASH) if gain is None else lead(gain.overall)


def score(over: OverSites | None, *, best: bool) -> Cell:
    """A mean over sites, with how far seeds lie apart and over how many sites it is, where not over all."""
    cell = mean(None if over is None else over.mean)
    few = "" if over is None else partial_text(over).strip()
    return Cell(cell.text, "\n".join(part for part in (cell.small, few) if part), best)


def mean(estimate: Estimate | None) -> Cell:
    """A mean over seeds, with how far they lie apart."""
    if estimate is None:
        return Cell(DASH)
    return Cell(f"{estimate.mean:.3f}", "" if estimate.deviation is None else f"± {estimate.deviation:.3f}")


def lead(interval: Interval) -> Cell:
    """A difference with its interval."""
    if interval.low is None or interval.high is None:
        return Cell(signed(interval.mean), "no interval")
    return Cell(signed(interval.mean), f"[{signed(interval.low)}, {signed(interval.high)}]")


def _versions(method: MethodSummary) -> str:
    """Reported rounds, of all points and seeds: 30, or 20–30."""
    numbers: Sequence[int] = [number for at in method.points.values() for number in at.versions.values()]
    if not numbers:
        return DASH
    return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)}–{max(numbers)}"


def _rounds(method: MethodSummary) -> Cell:
    """Not reached (1 of 2 runs did), or 12 (2 of 3 runs did)."""
    if method.target is None:
        return Cell(DASH)
    rounds, reached, runs = method.target.rounds, method.target.reached, method.target.runs
    if rounds is None:
        return Cell("not reached", f"({reached} of {runs} runs did)" if reached else "")
    return Cell(f"{rounds:g}", "" if reached == runs else f"({reached} of {runs} runs did)")


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
