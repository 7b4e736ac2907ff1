"""Curves over rounds: how well models do while training goes on, and what training itself measures.

Up to TOGETHER methods share their axes. Of more, the few that a reader looks for first are in colour before the
others in grey, and the others follow a few to a panel, before the first in grey: what is compared shares its axes.
"""

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from secureproto.simulation.history import RECEIVED, TUNED, History, method_name
from secureproto.simulation.report.drawing import (
    FAINT,
    MAJORITY,
    Look,
    Plot,
    figure,
    in_legend,
    plot,
    whole_rounds,
    wrapped,
)
from secureproto.simulation.report.series import Number, Series, mean_score, of_run, of_training, over_rounds
from secureproto.simulation.report.words import listed, measure_name
from secureproto.simulation.results import Summary
from secureproto.simulation.statistics import MEASURES, Measure

TOGETHER = 6  # methods in colour on the same axes
SHOWN = 4  # of more than these, those in colour
IN_PANEL = 4  # of the others
OURS = "protoaligned"
_COLUMNS = 3
_SCORES = (0.0, 1.0)
Runs = Mapping[str, Sequence[History]]  # by method
_POINTS = ((RECEIVED, "as received"), (TUNED, "after local training"))
_TRAINING = (
    ("cross_entropy", "cross entropy"),
    ("alignment", "alignment term"),
    ("embedding_norm", "mean norm of embeddings"),
)


def shown_first(summary: Summary) -> list[str]:
    """The methods to tell apart at a glance, SHOWN at most: the reference, this project's best, the best others.

    By mean accuracy over sites after local training, where there is none as received; the majority class is none,
    nor is a bound.
    """
    accuracy = {
        method.label: at.measures["accuracy"].mean.mean
        for method in summary.methods
        if not method.is_bound
        and (at := method.points.get(TUNED) or method.points.get(RECEIVED)) is not None
        and "accuracy" in at.measures
    }
    order = sorted((label for label in accuracy if method_name(label) != MAJORITY), key=lambda at: -accuracy[at])
    first = [summary.reference] if summary.reference is not None else []
    first += [label for label in order if method_name(label) == OURS][:1]
    return list(dict.fromkeys([*first, *(label for label in order if method_name(label) != OURS)]))[:SHOWN]


def learning_curves(runs: Runs, look: Mapping[str, Look], first: Sequence[str] = (), key: str = "") -> list[Plot]:
    """Every measure over rounds at both points; nothing where no run has two scored rounds.

    With more than TOGETHER methods those of `first` are in colour and the others grey, and these follow a few to a
    panel. `key` begins those of the plots.
    """
    if not _any_curve(runs):
        return []
    if len(runs) <= TOGETHER:
        return [_together(runs, look, list(runs), key)]
    shown = [label for label in first if label in runs] or list(runs)[:SHOWN]
    return [_together(runs, look, shown, key), _others(runs, look, shown, key)]


def training_curves(runs: Runs, look: Mapping[str, Look], key: str = "") -> list[Plot]:
    """Both loss terms and the embedding norm over rounds, of those that were measured. `key` begins the plot's."""
    shown = [
        (name, text)
        for name, text in _TRAINING
        if any(_worth_drawing(over_rounds(found, of_training(name))) for found in runs.values())
    ]
    if not shown:
        return []

    def draw() -> Figure:
        drawn = figure(3.2 + 0.19 * ceil(len(runs) / 2))
        for axes, (name, text) in zip(drawn.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            for label, found in runs.items():
                curve = over_rounds(found, of_training(name))
                _line(axes, curve if _worth_drawing(curve) else None, label, look[label])
            axes.set_title(text)
            whole_rounds(axes)
            _logarithmic_if_wide(axes)
        _legend(drawn, drawn.axes)
        return drawn

    return [
        plot(
            f"{key}training",
            draw,
            title="What local training measures",
            alternative="Curves over rounds, one a method: " + ", ".join(text for _, text in shown) + ".",
            reading=(
                "Mean over sites and seeds after each round's local training. Embeddings whose norm grows without "
                "end are the known failure of methods with prototypes; a method without an alignment term has no "
                "curve for it."
            ),
        )
    ]


def _any_curve(runs: Runs) -> bool:
    return any(
        (found := over_rounds(histories, mean_score(point, "accuracy"))) is not None and len(found.rounds) > 1
        for histories in runs.values()
        for point, _ in _POINTS
    )


def _any_score(runs: Runs, measure: Measure) -> bool:
    numbers = [mean_score(point, measure) for point, _ in _POINTS]
    return any(over_rounds(histories, number) is not None for histories in runs.values() for number in numbers)


def _worth_drawing(series: Series | None) -> bool:
    return series is not None and bool(np.any(series.mean != 0))


def _together(runs: Runs, look: Mapping[str, Look], shown: Sequence[str], key: str) -> Plot:
    """Measures × two points; methods that are not shown in colour are grey lines behind."""
    grey = [label for label in runs if label not in shown]
    measures = [measure for measure in MEASURES if _any_score(runs, measure)]

    def draw() -> Figure:
        drawn = figure(3.2 * len(measures) + 0.2 + 0.19 * ceil(len(shown) / 2))
        grid = drawn.subplots(len(measures), 2, sharex=True, sharey="row", squeeze=False)
        for row, measure in zip(grid, measures, strict=True):
            for axes, (point, text) in zip(row, _POINTS, strict=True):
                number = mean_score(point, measure)
                _behind(axes, [over_rounds(runs[label], number) for label in grey])
                for label in shown:
                    _line(axes, over_rounds(runs[label], number), label, look[label], within=_SCORES)
                    _broken_off(axes, runs[label], number, look[label].colour)
                axes.set_title(f"{measure_name(measure)}, {text}")
        for axes in grid[-1]:
            whole_rounds(axes)
        _legend(drawn, grid[0])
        return drawn

    behind = f", {len(grey)} others in grey" if grey else ""
    return plot(
        f"{key}learning",
        draw,
        title="Scores over rounds" if grey else "Learning curves",
        alternative=f"Mean {listed([measure_name(measure) for measure in measures])} of the sites over rounds, as "
        f"received and after local training, one curve for each of {len(shown)} methods{behind}.",
        reading=_READING + (_GREY if grey else "") + (_SHARES if _few_take_part(runs) else ""),
    )


_READING = (
    "Mean over sites on their test records; the band is one standard deviation over seeds to each side (none with "
    "one seed). A thin dotted line that ends in a cross is a run that did not end."
)
_GREY = (
    " In colour: the reference, this project's method and the best of the others; in grey all other methods, which "
    "the next figure tells apart."
)


_SHARES = (
    " A round takes a share of the sites: before the last version a point is the mean over those of its round, so "
    "points differ by their sites too."
)


def _few_take_part(runs: Runs) -> bool:
    every = [history for found in runs.values() for history in found if history.complete]
    return any(len(record.sites) < len(history.rounds[-1].sites) for history in every for record in history.rounds)


def _others(runs: Runs, look: Mapping[str, Look], shown: Sequence[str], key: str) -> Plot:
    """The methods that are not shown first, a few to a panel, as received above and after local training below."""
    labels = [label for label in runs if label not in shown]
    panels = ceil(len(labels) / IN_PANEL)
    size = ceil(len(labels) / panels)
    groups = [labels[start : start + size] for start in range(0, len(labels), size)]
    columns = min(_COLUMNS, len(groups))

    def draw() -> Figure:
        height = ceil(len(groups) / columns)
        drawn = figure(height * (4.7 + 0.17 * size))
        grid = drawn.subplots(2 * height, columns, sharex=True, sharey=True, squeeze=False)
        for place, group in enumerate(groups):
            row, column = divmod(place, columns)
            for below, (point, text) in enumerate(_POINTS):
                axes, number = grid[2 * row + below][column], mean_score(point, "accuracy")
                _behind(axes, [over_rounds(runs[label], number) for label in shown])
                for label in group:
                    curve = over_rounds(runs[label], number)
                    _line(axes, curve, wrapped(label, 34), look[label], within=_SCORES)
                    _broken_off(axes, runs[label], number, look[label].colour)
                axes.set_title(f"accuracy, {text}")
                axes.tick_params(labelbottom=True)
                if below:
                    whole_rounds(axes)
                    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.24), handlelength=3.2, borderaxespad=0)
        for axes in [axes for row in grid[-2:] for axes in row[(len(groups) - 1) % columns + 1 :]]:
            axes.set_axis_off()
        return drawn

    return plot(
        f"{key}learning-others",
        draw,
        title="Accuracy of the other methods over rounds",
        alternative=f"Mean accuracy of the sites over rounds of {len(labels)} methods in {len(groups)} columns of "
        "panels, as received and after local training.",
        reading=f"{_READING} In grey: the methods that the figure above has in colour.",
    )


def _behind(axes: Axes, curves: Sequence[Series | None]) -> None:
    for curve in curves:
        if curve is not None:
            axes.plot(curve.rounds, curve.mean, color=FAINT, linewidth=0.8, zorder=1)


def _line(
    axes: Axes, series: Series | None, label: str, look: Look, *, within: tuple[float, float] = (-np.inf, np.inf)
) -> None:
    """`within`: where the band of deviations ends."""
    if series is None:
        axes.plot([], [], color=look.colour, linestyle=look.line, label=in_legend(label))
        return
    alone = look.marker if len(series.rounds) == 1 else ""
    axes.plot(
        series.rounds,
        series.mean,
        color=look.colour,
        linestyle=look.line,
        marker=alone,
        linewidth=1.6,
        label=in_legend(label),
    )
    if series.deviation is not None:
        low, high = np.clip([series.mean - series.deviation, series.mean + series.deviation], *within)
        axes.fill_between(series.rounds, low, high, color=look.colour, alpha=0.14, linewidth=0)


def _broken_off(axes: Axes, runs: Sequence[History], number: Number, colour: str) -> None:
    for history in runs:
        points = {} if history.complete else of_run(history, number)
        if points:
            axes.plot(list(points), list(points.values()), color=colour, linestyle=(0, (1, 2)), linewidth=0.9)
            last = max(points)
            axes.plot([last], [points[last]], color=colour, marker="x", markersize=6)


def _logarithmic_if_wide(axes: Axes) -> None:
    """A logarithmic scale where the curves span more than a factor of 30, and none touches zero."""
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in axes.lines] or [np.empty(0)])
    if len(values) and values.min() > 0 and values.max() > 30 * values.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # no markup in the labels
        axes.yaxis.set_minor_formatter(NullFormatter())


def _legend(drawn: Figure, panels: Sequence[Axes]) -> None:
    handles, labels = panels[0].get_legend_handles_labels()
    long = any(len(label) > 30 for label in labels)
    drawn.legend(handles, labels, loc="outside lower left", ncols=2 if long else 4, handlelength=3.2)
