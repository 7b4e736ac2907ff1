"""What each site gets: accuracy by method at each site, and what a site gains over its own data only.

Up to 40 sites are rows with their names; more are drawn as distributions.
"""

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from secureproto.simulation.history import TUNED
from secureproto.simulation.report.drawing import (
    BLUE,
    GREY,
    INK,
    VERMILLION,
    Look,
    Plot,
    figure,
    method_name,
    plot,
    shortened,
    wrapped,
)
from secureproto.simulation.results import AtPoint, Comparison, Summary
from secureproto.simulation.statistics import Interval

NAMED = 40  # sites that are shown by name
_APART = 130  # rows in which site × method are drawn without overlap
_NAMED_IN_PANELS = 12  # sites by name in every panel of gains
_BARRED = 200  # sites up to which intervals are drawn
_PANELS = 3  # in a row
MAJORITY = "majority"


def accuracy_by_site(summary: Summary, look: Mapping[str, Look], key: str = "") -> list[Plot]:
    """Accuracy after local training of every site by every method. `key` begins the plot's.

    Guessing the majority class is left out where there is anything else: it would set the scale of all.
    """
    everything = {method.label: method.points[TUNED] for method in summary.methods if TUNED in method.points}
    found = {label: at for label, at in everything.items() if method_name(label) != MAJORITY} or everything
    sites = sorted({site for at in found.values() for site in at.sites})
    if not sites:
        return []
    many = len(sites) > NAMED
    reading = (
        "Each box holds the middle half of the sites, the line in it is the median, the dots are the sites (mean "
        "over seeds)."
        if many
        else "A mark is the mean over seeds, a bar (where there is room) one standard deviation over seeds to each "
        "side; in brackets the site's test records. One record more or less moves a mark by 1/records."
    )
    if len(found) < len(everything):
        reading += " Guessing the majority class is left out; it stands in the table below."
    return [
        plot(
            f"{key}sites",
            lambda: _distributions(found, look) if many else _dots(found, sites, look),
            title="Accuracy of each site after local training",
            alternative=f"Accuracy on test records of {len(sites)} sites by {len(found)} methods.",
            reading=reading,
        )
    ]


def _dots(found: Mapping[str, AtPoint], sites: Sequence[str], look: Mapping[str, Look]) -> Figure:
    methods = len(found)
    apart = len(sites) * methods <= _APART
    row = max(0.30, 0.125 * methods + 0.12) if apart else 0.40
    drawn = figure(row * len(sites) + 0.6 + 0.19 * _legend_rows(found))
    axes = drawn.subplots()
    offsets = (np.arange(methods) - (methods - 1) / 2) * (0.82 if apart else 0.6) / methods
    for offset, (label, at) in zip(offsets, found.items(), strict=True):
        style = look[label]
        known = [(place, at.sites[site]["accuracy"]) for place, site in enumerate(sites) if site in at.sites]
        axes.errorbar(
            [estimate.mean for _, estimate in known],
            [place + offset for place, _ in known],
            xerr=[estimate.deviation or 0.0 for _, estimate in known] if apart else None,
            color=style.colour,
            marker=style.marker,
            markersize=5,
            linestyle="none",
            elinewidth=1.0,
            label=label,
        )
    for place in range(1, len(sites)):
        axes.axhline(place - 0.5, color="#d0d0d0", linewidth=0.6)
    records = {site: max(at.records.get(site, 0) for at in found.values()) for site in sites}
    axes.set_yticks(range(len(sites)), [f"{shortened(site, 30)} ({records[site]})" for site in sites])
    axes.set_ylim(len(sites) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("accuracy")
    drawn.legend(loc="outside upper left", ncols=_legend_columns(found), handlelength=1.5)
    return drawn


def _legend_columns(labels: Mapping[str, object]) -> int:
    return 2 if any(len(label) > 30 for label in labels) else 4


def _legend_rows(labels: Mapping[str, object]) -> int:
    return ceil(len(labels) / _legend_columns(labels))


def _distributions(found: Mapping[str, AtPoint], look: Mapping[str, Look]) -> Figure:
    drawn = figure(0.5 * len(found) + 0.8)
    axes = drawn.subplots()
    numbers = np.random.default_rng(0)
    for place, (label, at) in enumerate(found.items()):
        values = np.array([estimates["accuracy"].mean for estimates in at.sites.values()])
        colour = look[label].colour
        axes.boxplot(
            values,
            orientation="horizontal",
            positions=[place],
            widths=0.6,
            showfliers=False,
            manage_ticks=False,
            boxprops={"color": colour, "linewidth": 1.2},
            whiskerprops={"color": colour},
            capprops={"color": colour},
            medianprops={"color": INK, "linewidth": 1.8},
        )
        spread = numbers.uniform(-0.22, 0.22, size=len(values))
        axes.plot(values, place + spread, "o", color=colour, markersize=2.5, alpha=0.55, markeredgewidth=0)
    axes.set_yticks(range(len(found)), [wrapped(label, 36) for label in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("accuracy")
    return drawn


def gains(summary: Summary, key: str = "") -> list[Plot]:
    """What each site gains by each method over the reference, after local training. `key` begins the plot's.

    Guessing the majority class is left out where there is anything else: its losses would set the scale of all.
    """
    everything = [c for c in summary.to_reference if (c.point, c.measure) == (TUNED, "accuracy")]
    found = [c for c in everything if method_name(c.method) != MAJORITY] or everything
    if not found or summary.reference is None:
        return []
    missing = "" if len(found) == len(everything) else " Guessing the majority class is left out."
    seeds = max(len(comparison.seeds) for comparison in found)
    bars = (
        f"the bar is the 95 % interval over seeds (one that meets the edge goes on; none for over {_BARRED} sites), "
        "and a filled mark's interval is wholly on its side of zero: significantly better or worse. An open mark's "
        "holds zero: the site cannot be told apart from what it has without the method."
        if seeds > 1
        else "there is one seed, so there are no intervals and no mark is filled: a second run may look different."
    )
    return [
        plot(
            f"{key}gains",
            lambda: _gains(found),
            title=f"Gain over {summary.reference} at each site, after local training",
            alternative="Difference in accuracy by site, sorted, a panel for each method. "
            + " ".join(f"{c.method}: {tally(c)}." for c in found),
            reading="Right of zero (blue, pointing up) a site gains, left of it (orange, pointing down) it loses; "
            + bars
            + missing,
        )
    ]


def tally(comparison: Comparison) -> str:
    """2 of 8 sites significantly better, 1 significantly worse, 5 not to be told apart (by the mean …)."""
    counts, sites = comparison.counts, len(comparison.sites)
    means = f"{_of_sites(counts.gain, sites)} gain, {counts.lose} lose"
    if counts.no_interval == sites:
        return f"{means} (one seed: there is no interval, so none of it can be told from chance)"
    parts = [f"{_of_sites(counts.better, sites)} significantly better, {counts.worse} significantly worse"]
    parts.append(f"{counts.unclear} not to be told apart")
    parts += [f"{counts.no_interval} with one seed only, so without interval"] if counts.no_interval else []
    return f"{', '.join(parts)} (by the mean alone {counts.gain} gain, {counts.lose} lose)"


def short_tally(comparison: Comparison) -> str:
    """The same for a narrow panel."""
    counts, sites = comparison.counts, len(comparison.sites)
    if counts.no_interval == sites:
        return f"{counts.gain} gain, {counts.lose} lose; no interval"
    return f"{counts.better} better, {counts.worse} worse, {sites - counts.better - counts.worse} open"


def _of_sites(count: int, sites: int) -> str:
    return f"{count} of {sites} {'site' if sites == 1 else 'sites'}"


def _gains(found: Sequence[Comparison]) -> Figure:
    most = max(len(comparison.sites) for comparison in found)
    columns = min(_PANELS, len(found))
    named = most <= _NAMED_IN_PANELS or (len(found) <= 2 and most <= NAMED)
    rows = ceil(len(found) / columns)
    height = (0.2 * most + 0.8) if named else 3.0
    drawn = figure(rows * height + 0.2)
    grid = drawn.subplots(rows, columns, sharex=True, squeeze=False)
    panels = [axes for row in grid for axes in row]
    for axes, comparison in zip(panels, found, strict=False):
        _panel(axes, comparison, named=named)
    panels[0].set_xlim(_limits(found))
    for axes in panels[len(found) :]:
        axes.set_axis_off()
    for axes in panels[max(0, len(found) - columns) : len(found)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("difference in accuracy")
    return drawn


def _limits(found: Sequence[Comparison]) -> tuple[float, float]:
    """All means, and intervals up to three times the largest of them: one wide interval is not to hide the rest."""
    intervals = [interval for comparison in found for interval in comparison.sites.values()]
    largest = max((abs(interval.mean) for interval in intervals), default=0.0) or 0.01
    low = min(interval.mean if interval.low is None else interval.low for interval in intervals)
    high = max(interval.mean if interval.high is None else interval.high for interval in intervals)
    margin = 0.12 * largest
    return max(min(low, 0.0), -3 * largest) - margin, min(max(high, 0.0), 3 * largest) + margin


def _panel(axes: Axes, comparison: Comparison, *, named: bool) -> None:
    order = sorted(comparison.sites, key=lambda site: (-comparison.sites[site].mean, site))
    size = 6.0 if named else max(2.0, min(5.0, 160 / len(order)))
    alike: dict[tuple[str, str, bool], list[tuple[int, Interval]]] = {}
    for place, site in enumerate(order):
        interval = comparison.sites[site]
        colour, marker = (BLUE, "^") if interval.mean > 0 else (VERMILLION, "v") if interval.mean < 0 else (GREY, "o")
        alike.setdefault((colour, marker, interval.sign != 0), []).append((place, interval))
    axes.axvline(0, color=INK, linewidth=0.9)
    for (colour, marker, sure), found in alike.items():
        bars = [(place, at.low, at.high) for place, at in found if at.low is not None and at.high is not None]
        if bars and len(order) <= _BARRED:
            places, low, high = zip(*bars, strict=True)
            axes.hlines(
                places, low, high, colors=colour, linewidth=1.1 if named else 0.7, alpha=0.7 if named else 0.35
            )
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
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_yticks(range(len(order)) if named else [], [shortened(site, 18) for site in order] if named else [])
    axes.grid(visible=False, axis="y")
    axes.set_title(wrapped(comparison.method, 26), fontsize=8.5, pad=15)
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
