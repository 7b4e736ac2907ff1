"""What came out, in the sentences of the box at the head of the page: the highest at each point, and how sure it is.

Invariant: where only some methods' sites choose, nothing ranks those as chosen among methods that do not choose.
"""

from collections.abc import Mapping, Sequence

from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED
from secureproto.simulation.report.words import (
    POINT_NAMES,
    at_points,
    headed,
    listed,
    measure_name,
    signed,
    tally,
    why_no_interval,
)
from secureproto.simulation.results import Comparison, MethodSummary, OverSites, Summary
from secureproto.simulation.results.rows import comparison
from secureproto.simulation.results.summarise import best_methods, ranked, unranked
from secureproto.simulation.statistics import FEWEST, Interval, Measure

_SHOWN = 4  # methods as chosen, after the first

Best = Mapping[tuple[str, Measure], tuple[str, ...]]


def findings(summary: Summary) -> list[str]:
    """What came out, in a few sentences."""
    best = best_methods(summary.methods)
    lacking = unranked(summary.methods)
    found = [text for point in (RECEIVED, TUNED) if (text := _highest(summary, point, best))]
    found += _chosen(summary, best)
    if not found and not lacking:
        return ["No run ended with scores: there is nothing to report."]
    others = _by_other_measures(best)
    found += [f"By other measures the first are: {others}."] if others else []
    found += [f"{headed(lacking)}."] if lacking else []
    if any(key[1] == "accuracy" for key in best):
        found.append("The first of several is picked by the very numbers that are shown, so its lead is flattered.")
    return found


def leader(summary: Summary, point: str, best: Best) -> str | None:
    """The method of the highest mean accuracy at a point, the first of equals; the only one where one alone is ranked
    there."""
    scored = list(_accuracies(ranked(summary.methods), point))
    return next(iter(best.get((point, "accuracy"), scored if len(scored) == 1 else ())), None)


def _highest(summary: Summary, point: str, best: Best) -> str | None:
    found, label = _accuracies(ranked(summary.methods), point), leader(summary, point, best)
    bounds = _bounds(summary) if point == RECEIVED else []  # no site trains it further
    if label is None:
        return " ".join(bounds) or None
    what = f"Mean accuracy {POINT_NAMES[point]}"
    if len(found) > 1:
        what = f"Highest mean accuracy {POINT_NAMES[point]}, of {_how_many(summary, found)}"
    over, equal = found[label], best.get((point, "accuracy"), ())
    alike = f"{listed(equal)} alike" if len(equal) > 1 else label
    worst = "" if len(equal) > 1 else f" (worst site {over.worst.mean:.3f})"
    text = f"{what}: {alike} with {over.mean.mean:.3f}{worst}."
    return " ".join([text, *_against_reference(summary, label, point), *bounds])


def _how_many(summary: Summary, found: Mapping[str, OverSites]) -> str:
    """Of 3 methods, or of 3 ranked methods, where others are not ranked."""
    return f"{len(found)} {'ranked ' if unranked(summary.methods) else ''}methods"


def _bounds(summary: Summary) -> list[str]:
    """What stands beside the ranked, in a sentence each."""
    bounds = _accuracies([method for method in summary.methods if method.is_bound], RECEIVED)
    return [
        f"{label}, where all records lie in one place, has a mean accuracy of {over.mean.mean:.3f}."
        for label, over in bounds.items()
    ]


def _chosen(summary: Summary, best: Best) -> list[str]:
    """The accuracy as chosen of each method whose sites choose, beside the one after local training."""
    found, label = _accuracies(summary.methods, CHOSEN), leader(summary, CHOSEN, best)
    if not found:
        return []
    among = _accuracies(ranked(summary.methods), CHOSEN)
    methods = {method.label: method for method in summary.methods}
    order = sorted(found, key=lambda one: (one != label, -found[one].mean.mean))
    of = "Mean accuracy as chosen, where each site picks what it uses by its own training records"
    if len(found) > 1:
        of = f"Highest mean accuracy as chosen, of {_how_many(summary, among)} whose sites choose"
    if label is None:  # several, and none of them can be ranked
        of = "Mean accuracy as chosen"
    head, *rest = [f"{one} with {_beside(methods[one], found[one])}" for one in order]
    text = [f"{of}: {head}."]
    text += [] if label is None else _against_reference(summary, label, CHOSEN)
    if rest:
        more = f", and {len(rest) - _SHOWN} more" if len(rest) > _SHOWN else ""
        text.append(f"Also as chosen: {'; '.join(rest[:_SHOWN])}{more}.")
    if len(found) < sum(bool(method.points) for method in summary.methods):
        text.append("The sites of other methods choose nothing, so this is no rank among them.")
    return [" ".join(text)]


def _accuracies(methods: Sequence[MethodSummary], point: str) -> dict[str, OverSites]:
    return {
        method.label: at.measures["accuracy"]
        for method in methods
        if (at := method.points.get(point)) is not None and "accuracy" in at.measures
    }


def _beside(method: MethodSummary, over: OverSites) -> str:
    """0.758 (worst site 0.700; after local training 0.740)."""
    tuned = method.points[TUNED].measures.get("accuracy") if TUNED in method.points else None
    other = "" if tuned is None else f"; {POINT_NAMES[TUNED]} {tuned.mean.mean:.3f}"
    return f"{over.mean.mean:.3f} (worst site {over.worst.mean:.3f}{other})"


def _by_other_measures(best: Best) -> str:
    """As: fedper (balanced accuracy as received and after local training); ditto (AUC as received)."""
    firsts: dict[str, dict[str, list[str]]] = {}
    for (point, measure), labels in best.items():
        if measure != "accuracy" and point != CHOSEN:
            firsts.setdefault(listed(labels), {}).setdefault(measure_name(measure), []).append(point)
    return "; ".join(
        f"{label} ({', '.join(f'{name} {at_points(points)}' for name, points in found.items())})"
        for label, found in firsts.items()
    )


def _against_reference(summary: Summary, label: str, point: str) -> list[str]:
    found = comparison(summary, label, point, "accuracy")
    return [] if found is None else [_difference(found, summary)]


def _difference(found: Comparison, summary: Summary) -> str:
    interval = found.overall
    other = next(method for method in summary.methods if method.label == found.other)
    where = f" {POINT_NAMES[TUNED]}" if found.point not in other.points else ""
    bounds = ""
    if interval.low is not None and interval.high is not None:
        bounds = f", interval {signed(interval.low)} to {signed(interval.high)}"
    return (
        f"Against {found.other}{where} that is {signed(interval.mean)} on the mean of the sites{bounds} "
        f"({_meaning(interval)}); {tally(found, told=interval.low is None)}."
    )


def _meaning(interval: Interval) -> str:
    if interval.low is not None:
        return "it holds zero: chance could give the difference" if interval.sign == 0 else "it does not hold zero"
    more = ": a further run may look different" if interval.n < FEWEST else ""
    return f"{why_no_interval(interval)}, so no interval{more}"
