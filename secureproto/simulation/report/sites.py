"""What each site gets: its scores by every method, after local training and, where its sites choose, as chosen.

Up to 40 sites are rows with their names; more are drawn as distributions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from secureproto.simulation.history import CHOSEN, TUNED, method_name
from secureproto.simulation.report.drawing import (
    INK,
    MAJORITY,
    Look,
    Plot,
    figure,
    in_legend,
    plot,
    score_axis,
    shortened,
    wrapped,
)
from secureproto.simulation.report.words import at_points, headed, measure_name, named
from secureproto.simulation.results import AtPoint, Estimate, Summary
from secureproto.simulation.statistics import Measure

NAMED = 40  # sites that are shown by name
SITES_IN_TABLE = 200  # those of more are in results.csv
_APART = 130  # rows in which site × method are drawn without overlap
_IN_LEGEND = 52  # letters in a line of it


@dataclass(frozen=True)
class Marks:
    """A method at a point, and how it is drawn: as chosen it is hollow."""

    name: str
    method: str
    point: str
    at: AtPoint
    look: Look

    @property
    def face(self) -> str:
        """The colour inside a mark."""
        return "white" if self.point == CHOSEN else self.look.colour


def scores_by_site(summary: Summary, look: Mapping[str, Look], measure: Measure, key: str = "") -> list[Plot]:
    """A measure of every site by every method, after local training and as chosen; nothing where no site has it.

    `key` begins the plot's. Guessing the majority class is left out where there is anything else: it would set the
    scale of all.
    """
    everything = [
        Marks(named(method.label, point), method.label, point, method.points[point], look[method.label])
        for method in summary.methods
        for point in (TUNED, CHOSEN)
        if point in method.points
    ]
    found = [one for one in everything if method_name(one.method) != MAJORITY] or everything
    sites = sorted({site for one in found for site, scores in one.at.sites.items() if measure in scores})
    if not sites:
        return []
    name = measure_name(measure)
    many = len(sites) > NAMED
    points = at_points(one.point for one in found)
    methods = len({one.method for one in found})
    return [
        plot(
            f"{key}sites" if measure == "accuracy" else f"{key}sites-{measure}",
            lambda: _distributions(found, measure) if many else dots(found, sites, measure),
            title=f"{headed(name)} of each site {points}",
            alternative=f"{headed(name)} on test records of {len(sites)} sites by {methods} methods, {points}.",
            reading=_reading(found, measure, many=many)
            + (
                ""
                if len(found) == len(everything)
                else f" Guessing the majority class is left out; it stands in {_elsewhere(sites)}."
            ),
        )
    ]


def _elsewhere(sites: Sequence[str]) -> str:
    return "the table below" if len(sites) <= SITES_IN_TABLE else "results.csv"


def _reading(found: Sequence[Marks], measure: Measure, *, many: bool) -> str:
    reading = (
        "Each box holds the middle half of the sites, the line in it is the median, the dots are the sites (mean "
        "over seeds)."
        if many
        else "A mark is the mean over seeds, a bar (where there is room) one standard deviation over seeds to each "
        "side, though never beyond 0 or 1; in brackets the site's test records."
    )
    if measure == "accuracy" and not many:
        reading += " One record more or less moves a mark by 1/records."
    if any(one.point == CHOSEN for one in found):
        reading += " Hollow, “as chosen”: what a site uses, for a method whose sites choose."
    return reading


def dots(found: Sequence[Marks], sites: Sequence[str], measure: Measure) -> Figure:
    """A row a site, a mark in it for each method at each point."""
    rows = len(found)
    apart = len(sites) * rows <= _APART
    row = max(0.30, 0.125 * rows + 0.12) if apart else 0.40
    names = [wrapped(one.name, _IN_LEGEND) for one in found]
    columns = 2 if any(len(name) > 30 for name in names) else 4
    lines = ceil(sum(name.count("\n") + 1 for name in names) / columns)
    drawn = figure(row * len(sites) + 0.6 + 0.19 * lines)
    axes = drawn.subplots()
    offsets = (np.arange(rows) - (rows - 1) / 2) * (0.82 if apart else 0.6) / rows
    for offset, one, name in zip(offsets, found, names, strict=True):
        scores = [one.at.sites.get(site, {}).get(measure) for site in sites]
        known = [(place, estimate) for place, estimate in enumerate(scores) if estimate is not None]
        axes.errorbar(
            [estimate.mean for _, estimate in known],
            [place + offset for place, _ in known],
            xerr=_bars([estimate for _, estimate in known]) if apart else None,
            color=one.look.colour,
            marker=one.look.marker,
            markerfacecolor=one.face,
            markersize=5,
            linestyle="none",
            elinewidth=1.0,
            clip_on=False,
            label=in_legend(name),
        )
    _site_rows(axes, found, sites)
    score_axis(axes, measure_name(measure))
    drawn.legend(loc="outside upper left", ncols=columns, handlelength=1.5)
    return drawn


def _bars(estimates: Sequence[Estimate]) -> list[list[float]]:
    """How far the bars reach to the left and to the right: a score is never under 0 or over 1."""
    reach = [(estimate.mean, estimate.deviation or 0.0) for estimate in estimates]
    return [[min(by, mean) for mean, by in reach], [min(by, 1 - mean) for mean, by in reach]]


def _site_rows(axes: Axes, found: Sequence[Marks], sites: Sequence[str]) -> None:
    for place in range(1, len(sites)):
        axes.axhline(place - 0.5, color="#d0d0d0", linewidth=0.6)
    records = {site: max(one.at.records.get(site, 0) for one in found) for site in sites}
    axes.set_yticks(range(len(sites)), [f"{shortened(site, 30)} ({records[site]})" for site in sites])
    axes.set_ylim(len(sites) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _distributions(found: Sequence[Marks], measure: Measure) -> Figure:
    drawn = figure(0.5 * len(found) + 0.8)
    axes = drawn.subplots()
    numbers = np.random.default_rng(0)
    for place, one in enumerate(found):
        values = np.array([scores[measure].mean for scores in one.at.sites.values() if measure in scores])
        colour = one.look.colour
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
        spread = place + numbers.uniform(-0.22, 0.22, size=len(values))
        axes.plot(
            values,
            spread,
            "o",
            color=colour,
            markerfacecolor=one.face,
            markeredgewidth=0.6 if one.point == CHOSEN else 0,
            markersize=2.5,
            alpha=0.55,
            clip_on=False,
        )
    axes.set_yticks(range(len(found)), [wrapped(one.name, 36) for one in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    score_axis(axes, measure_name(measure))
    return drawn
