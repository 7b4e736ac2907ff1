"""Who gains by joining and who loses: the difference to the reference at each site, by each measure.

A method whose sites choose has two panels: after local training, and as chosen, which is what its sites use.
"""

from collections.abc import Sequence
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from secureproto.simulation.history import CHOSEN, TUNED, method_name
from secureproto.simulation.report.drawing import (
    BLUE,
    GREY,
    INK,
    MAJORITY,
    VERMILLION,
    Plot,
    figure,
    plot,
    shortened,
    wrapped,
)
from secureproto.simulation.report.sites import NAMED
from secureproto.simulation.report.words import (
    at_points,
    measure_name,
    named,
    short_tally,
    tally,
    why_no_interval,
)
from secureproto.simulation.results import Comparison, Summary
from secureproto.simulation.statistics import MEASURES, Interval, Measure

_NAMED_IN_PANELS = 12  # sites by name in every panel
_BARRED = 200  # sites up to which intervals are drawn
_PANELS = 3  # in a row
_STEPS = 4  # along the axis of a narrow panel at most, so that its labels do not touch


def gained(summary: Summary, measure: Measure) -> list[Comparison]:
    """Every method against the reference by a measure, after local training and as chosen.

    Guessing the majority class is left out where there is anything else: its losses would set the scale of all.
    """
    everything = [c for c in summary.to_reference if c.measure == measure and c.point in (TUNED, CHOSEN)]
    return [c for c in everything if method_name(c.method) != MAJORITY] or everything


def gains(summary: Summary, key: str = "") -> list[Plot]:
    """What each site gains by each method over the reference, a plot for each measure. `key` begins the plots'."""
    plots = []
    for measure in MEASURES:
        found = gained(summary, measure)
        if found:
            plots.append(_plot(summary, measure, found, key))
    return plots


def _plot(summary: Summary, measure: Measure, found: Sequence[Comparison], key: str) -> Plot:
    name, points = measure_name(measure), at_points(c.point for c in found)
    return plot(
        f"{key}gains-{measure.replace('_', '-')}",
        lambda: panels(found),
        title=f"Gain in {name} over {summary.reference} at each site, {points}",
        alternative=f"Difference in {name} by site, sorted, a panel for each method. "
        + " ".join(f"{named(c.method, c.point)}: {tally(c)}." for c in found),
        reading=_reading(summary, measure, found),
    )


def _why_none(found: Sequence[Comparison]) -> str:
    reasons = (why_no_interval(interval) for c in found for interval in c.sites.values())
    return "; ".join(dict.fromkeys(reasons))


def _reading(summary: Summary, measure: Measure, found: Sequence[Comparison]) -> str:
    bars = (
        f"the bar is the 95 % interval over seeds (one that meets the edge goes on; none for over {_BARRED} sites), "
        "and a filled mark's interval is wholly on its side of zero: significantly better or worse. An open mark's "
        "holds zero, or there is none: the site cannot be told apart from what it has without the method."
        if any(interval.low is not None for c in found for interval in c.sites.values())
        else f"there are no intervals ({_why_none(found)}) and no mark is filled: a further run may look different."
    )
    text = f"Right of zero (blue, pointing up) a site gains, left of it (orange, pointing down) it loses; {bars}"
    if any(c.point == CHOSEN for c in found):
        other = next(method for method in summary.methods if method.label == summary.reference)
        text += " “As chosen” is what the sites use"
        text += f", against {other.label} after local training." if CHOSEN not in other.points else "."
    if any(c.undefined for c in found):
        text += f" Sites where {measure_name(measure)} is not defined are left out."
    left_out = any(c.measure == measure and method_name(c.method) == MAJORITY for c in summary.to_reference)
    if left_out and method_name(found[0].method) != MAJORITY:
        text += " Guessing the majority class is left out."
    return text


def panels(found: Sequence[Comparison]) -> Figure:
    """A panel for each comparison, all on the same axis; the sites of each are sorted by what they gain."""
    most = max(len(comparison.sites) for comparison in found)
    columns = min(_PANELS, len(found))
    named_sites = most <= _NAMED_IN_PANELS or (len(found) <= 2 and most <= NAMED)
    rows = ceil(len(found) / columns)
    height = (0.2 * most + 0.8) if named_sites else 3.0
    drawn = figure(rows * height + 0.2)
    grid = drawn.subplots(rows, columns, sharex=True, squeeze=False)
    every = [axes for row in grid for axes in row]
    for axes, comparison in zip(every, found, strict=False):
        _panel(axes, comparison, named_sites=named_sites)
    every[0].set_xlim(_limits(found))
    every[0].xaxis.set_major_locator(MaxNLocator(nbins=_STEPS * _PANELS // columns, steps=[1, 2, 4, 5, 10]))
    for axes in every[len(found) :]:
        axes.set_axis_off()
    for axes in every[max(0, len(found) - columns) : len(found)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(f"difference in {measure_name(found[0].measure)}")
    return drawn


def _limits(found: Sequence[Comparison]) -> tuple[float, float]:
    """All means, and intervals up to three times the largest of them: one wide interval is not to hide the rest."""
    intervals = [interval for comparison in found for interval in comparison.sites.values()]
    largest = max((abs(interval.mean) for interval in intervals), default=0.0) or 0.01
    low = min(interval.mean if interval.low is None else interval.low for interval in intervals)
    high = max(interval.mean if interval.high is None else interval.high for interval in intervals)
    margin = 0.12 * largest
    return max(min(low, 0.0), -3 * largest) - margin, min(max(high, 0.0), 3 * largest) + margin


def _panel(axes: Axes, comparison: Comparison, *, named_sites: bool) -> None:
    order = sorted(comparison.sites, key=lambda site: (-comparison.sites[site].mean, site))
    _marks(axes, [comparison.sites[site] for site in order], named_sites=named_sites)
    axes.set_ylim(len(order) - 0.5, -0.5)
    names = [shortened(site, 18) for site in order] if named_sites else []
    axes.set_yticks(range(len(names)), names)
    axes.grid(visible=False, axis="y")
    axes.set_title(wrapped(named(comparison.method, comparison.point), 26), fontsize=8.5, pad=15)
    axes.annotate(
        short_tally(comparison),
        (0, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8,
        color=GREY,
        va="bottom",
    )


def _marks(axes: Axes, intervals: Sequence[Interval], *, named_sites: bool) -> None:
    size = 6.0 if named_sites else max(2.0, min(5.0, 160 / len(intervals)))
    alike: dict[tuple[str, str, bool], list[tuple[int, Interval]]] = {}
    for place, interval in enumerate(intervals):
        colour, marker = (BLUE, "^") if interval.mean > 0 else (VERMILLION, "v") if interval.mean < 0 else (GREY, "o")
        alike.setdefault((colour, marker, interval.sign != 0), []).append((place, interval))
    axes.axvline(0, color=INK, linewidth=0.9)
    for (colour, marker, sure), found in alike.items():
        bars = [(place, at.low, at.high) for place, at in found if at.low is not None and at.high is not None]
        if bars and len(intervals) <= _BARRED:
            places, low, high = zip(*bars, strict=True)
            width, alpha = (1.1, 0.7) if named_sites else (0.7, 0.35)
            axes.hlines(places, low, high, colors=colour, linewidth=width, alpha=alpha)
        axes.plot(
            [at.mean for _, at in found],
            [place for place, _ in found],
            marker=marker,
            linestyle="none",
            color=colour,
            markerfacecolor=colour if sure else "white",
            markersize=size,
            clip_on=False,
        )
