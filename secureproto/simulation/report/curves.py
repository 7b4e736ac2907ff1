"""Curves over rounds: how well models do while training goes on, and what training itself measures.

Up to six methods share their axes; more get a panel each, with all others in grey behind, so that none hides another.
"""

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from secureproto.simulation.history import RECEIVED, TUNED, History
from secureproto.simulation.report.drawing import (
    FAINT,
    GREY,
    INK,
    Line,
    Look,
    Plot,
    figure,
    plot,
    whole_rounds,
    wrapped,
)
from secureproto.simulation.report.series import Number, Series, mean_score, of_run, of_training, over_rounds
from secureproto.simulation.statistics import Measure

TOGETHER = 6  # methods on one pair of axes
MEASURED: tuple[Measure, ...] = ("accuracy", "balanced_accuracy")
Runs = Mapping[str, Sequence[History]]  # by method
_LINES: tuple[Line, Line] = ("solid", (0, (4, 2)))  # received, tuned
_POINTS = ((RECEIVED, "as received"), (TUNED, "after local training"))
_TRAINING = (
    ("cross_entropy", "cross entropy"),
    ("alignment", "alignment term"),
    ("embedding_norm", "mean norm of embeddings"),
)


def learning_curves(runs: Runs, look: Mapping[str, Look]) -> list[Plot]:
    """Accuracy and balanced accuracy over rounds at both points; nothing where no run has two scored rounds."""
    if len(runs) <= TOGETHER:
        return [_together(runs, look)] if _any_curve(runs) else []
    return [_apart(runs, look, measure) for measure in MEASURED] if _any_curve(runs) else []


def training_curves(runs: Runs, look: Mapping[str, Look]) -> list[Plot]:
    """Both loss terms and the embedding norm over rounds, of those that were measured."""
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
                _line(axes, over_rounds(found, of_training(name)), label, look[label])
            axes.set_title(text)
            whole_rounds(axes)
            _logarithmic_if_wide(axes)
        _legend(drawn, drawn.axes)
        return drawn

    return [
        plot(
            "training",
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


def _worth_drawing(series: Series | None) -> bool:
    return series is not None and bool(np.any(series.mean != 0))


def _together(runs: Runs, look: Mapping[str, Look]) -> Plot:
    def draw() -> Figure:
        drawn = figure(6.6 + 0.19 * ceil(len(runs) / 2))
        grid = drawn.subplots(2, 2, sharex=True, sharey="row")
        for row, measure in zip(grid, MEASURED, strict=True):
            for axes, (point, text) in zip(row, _POINTS, strict=True):
                number = mean_score(point, measure)
                for label, found in runs.items():
                    _line(axes, over_rounds(found, number), label, look[label])
                    _broken_off(axes, found, number, look[label].colour)
                axes.set_title(f"{measure.replace('_', ' ')}, {text}")
        for axes in grid[1]:
            whole_rounds(axes)
        _legend(drawn, [*grid[0], *grid[1]])
        return drawn

    return plot(
        "learning",
        draw,
        title="Learning curves",
        alternative="Mean accuracy and balanced accuracy of the sites over rounds, as received and after local "
        f"training, one curve for each of {len(runs)} methods.",
        reading=_READING,
    )


_READING = (
    "Mean over sites on their test records; the band is one standard deviation over seeds to each side (none with "
    "one seed). A thin dotted line that ends in a cross is a run that did not end."
)


def _apart(runs: Runs, look: Mapping[str, Look], measure: Measure) -> Plot:
    name = measure.replace("_", " ")
    columns = 3

    def draw() -> Figure:
        height = ceil(len(runs) / columns)
        drawn = figure(2.1 * height + 0.5)
        grid = drawn.subplots(height, columns, sharex=True, sharey=True, squeeze=False)
        panels = [axes for row in grid for axes in row]
        curves = {label: over_rounds(found, mean_score(RECEIVED, measure)) for label, found in runs.items()}
        for axes, (label, found) in zip(panels, runs.items(), strict=False):
            for other in curves.values():
                if other is not None:
                    axes.plot(other.rounds, other.mean, color=FAINT, linewidth=0.7, zorder=1)
            colour = look[label].colour
            for (point, text), line in zip(_POINTS, _LINES, strict=True):
                number = mean_score(point, measure)
                _line(axes, over_rounds(found, number), text, Look(colour, line, "o"))
                _broken_off(axes, found, number, colour)
            axes.set_title(wrapped(label, 34), fontsize=8.5)
        for axes in panels[len(runs) :]:
            axes.set_axis_off()
        for axes in panels[max(0, len(runs) - columns) : len(runs)]:
            whole_rounds(axes)
            axes.tick_params(labelbottom=True)
        _legend_of_lines(drawn)
        return drawn

    return plot(
        f"learning-{measure.replace('_', '-')}",
        draw,
        title=f"Learning curves: {name}",
        alternative=f"Mean {name} of the sites over rounds, a panel for each of {len(runs)} methods, as received and "
        "after local training, with all other methods in grey.",
        reading=f"{_READING} The grey lines are all other methods as received.",
    )


def _line(axes: Axes, series: Series | None, label: str, look: Look) -> None:
    if series is None:
        axes.plot([], [], color=look.colour, linestyle=look.line, label=label)
        return
    alone = look.marker if len(series.rounds) == 1 else ""
    axes.plot(
        series.rounds, series.mean, color=look.colour, linestyle=look.line, marker=alone, linewidth=1.6, label=label
    )
    if series.deviation is not None:
        low, high = series.mean - series.deviation, series.mean + series.deviation
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


def _legend_of_lines(drawn: Figure) -> None:
    lines = [drawn.axes[0].plot([], [], color=INK, linestyle=line)[0] for line in _LINES]
    grey = drawn.axes[0].plot([], [], color=GREY, linewidth=0.7)[0]
    texts = [*(text for _, text in _POINTS), "other methods, as received"]
    drawn.legend([*lines, grey], texts, loc="outside lower left", ncols=3, handlelength=3.2)
