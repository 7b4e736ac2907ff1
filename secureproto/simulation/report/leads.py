"""The best method against every other, and what sites use that choose against what they would have otherwise."""

from collections.abc import Sequence

from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED, History
from secureproto.simulation.report.findings import leader
from secureproto.simulation.report.tables import Cell, Table, lead
from secureproto.simulation.report.words import POINT_NAMES, named, standing
from secureproto.simulation.results import Comparison, Summary
from secureproto.simulation.results.comparing import Points, compare
from secureproto.simulation.results.reported import reported
from secureproto.simulation.results.summarise import best_methods, ranked

_ITSELF = "itself"


def leads(summary: Summary, histories: Sequence[History]) -> list[Table]:
    """The highest mean accuracy as received and after local training against every other; then that as chosen."""
    tables = []
    for point in (RECEIVED, TUNED):
        found = [c for c in summary.of_best if (c.point, c.measure) == (point, "accuracy")]
        if found:
            among = {method.label for method in ranked(summary.methods)}
            caption = f"{found[0].method} (highest mean accuracy {POINT_NAMES[point]}) against the others"
            names = [c.other if c.other in among else f"{c.other} (not ranked)" for c in found]
            tables.append(_table(caption, list(zip(names, found, strict=True))))
    return [*tables, *_as_chosen(summary, histories)]


def _as_chosen(summary: Summary, histories: Sequence[History]) -> list[Table]:
    """What the sites use of the method that is highest as chosen, against every other as compared with the reference:
    as chosen where its sites choose too, else after local training; and first against itself after local training."""
    label = leader(summary, CHOSEN, best_methods(summary.methods))
    if label is None:
        return []
    runs = {method.label: _points(summary, method.label, histories) for method in summary.methods}
    itself = {TUNED: runs[label][TUNED]} if TUNED in runs[label] else {}
    found = [
        (_name(other, by_point), comparison)
        for other, by_point in {_ITSELF: itself, **runs}.items()
        if other != label
        and (
            comparison := compare(
                {label: runs[label], other: by_point},
                (label, other),
                point=CHOSEN,
                measure="accuracy",
                redrawn=summary.redrawn,
            )
        )
    ]
    caption = f"{label}, as chosen by its sites, against itself without a choice and the others"
    return [_table(caption, found)] if found else []


def _points(summary: Summary, label: str, histories: Sequence[History]) -> Points:
    runs = [history for history in histories if history.method == label and history.complete]
    return {
        point: {run.seed: at for run in runs if (at := reported(run, point, summary.rule))}
        for point in (TUNED, CHOSEN)
    }


def _name(label: str, by_point: Points) -> str:
    return named(label, CHOSEN) if by_point.get(CHOSEN) else f"{label}, {POINT_NAMES[TUNED]}"


def _table(caption: str, found: Sequence[tuple[str, Comparison]]) -> Table:
    rows = tuple((Cell(name), lead(c.overall), Cell(standing(c)), Cell(str(len(c.seeds)))) for name, c in found)
    return Table(caption, (), ("method", "lead in accuracy", "what can be said", "seeds in common"), rows)
