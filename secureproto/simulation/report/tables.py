"""The tables of the page as texts, ready for the template.

Invariant: a number that is not there is a dash, never a zero.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from secureproto.simulation.history import RECEIVED, TUNED
from secureproto.simulation.report.costs import readable
from secureproto.simulation.report.words import POINT_NAMES, measure_name, signed, standing
from secureproto.simulation.results import AtPoint, Estimate, MethodSummary, OverSites, Summary
from secureproto.simulation.results.reported import POINTS
from secureproto.simulation.results.summarise import best_methods
from secureproto.simulation.results.terminal import choices_text, partial_text
from secureproto.simulation.statistics import Interval, Measure

DASH = "–"
SITES_IN_TABLE = 200


@dataclass(frozen=True)
class Cell:
    """A text, a second line in small type, and whether it is the best of its column."""

    text: str
    small: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    """`groups`: (heading, number of columns) over `columns`; empty for none. The first cell of a row heads it."""

    caption: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def over_points(
    caption: str, points: Sequence[str], columns: Sequence[str], rows: Iterable[tuple[str, Iterable[Iterable[Cell]]]]
) -> Table:
    """The same columns under every point. `rows`: a label, and for each point its cells."""
    return Table(
        caption=caption,
        groups=tuple((POINT_NAMES[point], len(columns)) for point in points),
        columns=("method", *(tuple(columns) * len(points))),
        rows=tuple((Cell(label), *(cell for cells in groups for cell in cells)) for label, groups in rows),
    )


def by_measure(summary: Summary, measure: Measure) -> Table:
    """Mean, worst site, spread and the difference to the reference, at every point that a method was scored at."""
    points = _points(summary)
    best = best_methods(summary.methods) if len(summary.methods) > 1 else {}
    difference = () if summary.reference is None else (f"vs {summary.reference}",)
    columns = ("mean", "worst", "spread", *difference)
    name = measure_name(measure)
    return over_points(
        f"{name[0].upper()}{name[1:]} on test records",
        points,
        columns,
        (
            (
                method.label,
                [_of_point(summary, method, point, measure, best.get((point, measure))) for point in points],
            )
            for method in summary.methods
        ),
    )


def further(summary: Summary) -> Table:
    """What else there is on each method: runs, versions, pooled accuracy, rounds to the target, costs, choices."""
    points = _points(summary)
    choices = any(method.choices for method in summary.methods)
    columns = ["method", "runs that ended", "reported round", *(f"pooled, {POINT_NAMES[point]}" for point in points)]
    columns += [] if summary.target is None else [f"rounds to accuracy {summary.target:g}"]
    columns += ["a site sent", "seconds a run", *(["sites chose"] if choices else [])]
    rows = []
    for method in summary.methods:
        failed = sum(failure.method == method.label for failure in summary.failures)
        row = [Cell(method.label), Cell(f"{len(method.seeds)} of {len(method.seeds) + failed}")]
        row.append(Cell(_versions(method)))
        row += [_mean(at.pooled if (at := method.points.get(point)) else None) for point in points]
        if summary.target is not None:
            row.append(_rounds(method))
        sent, seconds = method.bytes_sent, method.seconds
        row.append(Cell(DASH if sent is None else readable(sent.mean)))
        row.append(Cell(DASH if seconds is None else f"{seconds.mean:.1f}"))
        if choices:
            row.append(Cell(choices_text(method)))
        rows.append(tuple(row))
    return Table("Runs, pooled accuracy and costs", (), tuple(columns), tuple(rows))


def lead_of_best(summary: Summary) -> list[Table]:
    """The method of the highest mean accuracy against every other, as received and after local training."""
    tables = []
    for point in (RECEIVED, TUNED):
        found = [c for c in summary.of_best if (c.point, c.measure) == (point, "accuracy")]
        if found:
            caption = f"{found[0].method} (highest mean accuracy {POINT_NAMES[point]}) against the others"
            rows = tuple(
                (Cell(c.other), *_interval(c.overall), Cell(standing(c)), Cell(str(len(c.seeds)))) for c in found
            )
            columns = ("method", "lead in accuracy", "what can be said", "seeds in common")
            tables.append(Table(caption, (), columns, rows))
    return tables


def by_site(summary: Summary) -> Table | None:
    """Accuracy after local training at every site; None for more than 200 sites (`results.csv` has them)."""
    found = {method.label: method.points[TUNED] for method in summary.methods if TUNED in method.points}
    sites = sorted({site for at in found.values() for site in at.sites})
    if not sites or len(sites) > SITES_IN_TABLE:
        return None
    rows = tuple(
        (
            Cell(site),
            Cell(str(max(at.records.get(site, 0) for at in found.values()))),
            *(_mean(at.sites[site]["accuracy"] if site in at.sites else None) for at in found.values()),
        )
        for site in sites
    )
    caption = "Accuracy of each site after local training (mean over seeds, ± standard deviation)"
    return Table(caption, (), ("site", "test records", *found), rows)


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
    summary: Summary, method: MethodSummary, point: str, measure: Measure, best: str | None
) -> Iterator[Cell]:
    at: AtPoint | None = method.points.get(point)
    over: OverSites | None = None if at is None else at.measures.get(measure)
    yield score(over, best=best == method.label)
    yield Cell(DASH if over is None else f"{over.worst.mean:.3f}")
    yield Cell(DASH if over is None else f"{over.spread.mean:.3f}")
    if summary.reference is not None:
        gain = [c for c in summary.to_reference if (c.method, c.point, c.measure) == (method.label, point, measure)]
        yield from _interval(gain[0].overall) if gain else (Cell(DASH),)


def score(over: OverSites | None, *, best: bool) -> Cell:
    """A mean over sites, with how far seeds lie apart and over how many sites it is, where not over all."""
    mean = _mean(None if over is None else over.mean)
    few = "" if over is None else partial_text(over).strip()
    return Cell(mean.text, " ".join(part for part in (mean.small, few) if part), best)


def _mean(estimate: Estimate | None) -> Cell:
    if estimate is None:
        return Cell(DASH)
    return Cell(f"{estimate.mean:.3f}", "" if estimate.deviation is None else f"± {estimate.deviation:.3f}")


def _interval(interval: Interval) -> tuple[Cell]:
    if interval.low is None or interval.high is None:
        return (Cell(signed(interval.mean), "no interval"),)
    return (Cell(signed(interval.mean), f"[{signed(interval.low)}, {signed(interval.high)}]"),)


def _versions(method: MethodSummary) -> str:
    """Reported rounds after local training, of all seeds: 30, or 20–30."""
    numbers: Sequence[int] = [number for at in method.points.values() for number in at.versions.values()]
    if not numbers:
        return DASH
    return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)}–{max(numbers)}"


def _rounds(method: MethodSummary) -> Cell:
    if method.target is None:
        return Cell(DASH)
    text = "not reached" if method.target.rounds is None else f"{method.target.rounds:g}"
    return Cell(text, f"{method.target.reached} of {method.target.runs} runs" if method.target.reached else "")


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
