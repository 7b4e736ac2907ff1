"""A partition as a picture: classes × sites by their training records, with the size of each site above.

A heat map: it reads for 4 sites as for 200, where dots would run into each other. The numbers stand in the cells as
long as they have room. Equal partitions give equal bytes.
"""

import warnings
from collections.abc import Sequence
from io import StringIO
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from secureproto.simulation.partition.division import Partition
from secureproto.simulation.partition.table import class_counts, training_rows

I64 = NDArray[np.int64]

_CELL = 0.42  # inches of a row or a column, less where there are many
_WIDEST, _TALLEST = 16.0, 12.0
_NUMBERS_FROM = 0.3  # inches a cell needs for its number
_LABELS_FROM = 0.14  # inches a label of an axis needs
_LONGEST = 18  # characters of a label
_STEPS = [first * 10**power for power in range(9) for first in (1, 2, 5)]
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "secureproto",
    "svg.fonttype": "none",
    "font.size": 8,
    "font.family": "DejaVu Sans",
}


def draw(partition: Partition, labels: NDArray[np.int64], classes: Sequence[str]) -> str:
    """The picture as SVG text. `labels`: those of the pool; `classes`: the study's, by index."""
    counts = class_counts(training_rows(partition), labels, len(classes))
    width = min(_CELL * len(counts), _WIDEST)
    height = min(_CELL * len(classes), _TALLEST)
    with rc_context(_STYLE), warnings.catch_warnings():
        # the font of the reader, not of the drawing, has to have the letters of a name
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(max(width, 2.5) + 2.6, height + 2.4), layout="constrained")
        FigureCanvasSVG(figure)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, max(height, 1.0)])
        figure.suptitle(_title(partition), parse_math=False)
        _sizes(upper, partition)
        _map(figure, lower, counts, numbers=min(width / len(counts), height / len(classes)) >= _NUMBERS_FROM)
        _label(lower, list(partition.sites), width=width, axis="x")
        _label(lower, list(classes), width=height, axis="y")
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _title(partition: Partition) -> str:
    tests = "; test parts share records" if partition.tests_overlap else ""
    return f"{partition.scheme}, {len(partition.sites)} sites, seed {partition.options.seed}{tests}"


def _sizes(axes: Axes, partition: Partition) -> None:
    below = np.zeros(len(partition.sites))
    edges = np.arange(len(partition.sites) + 1) - 0.5
    parts = {
        "training": [len(rows.train) for rows in partition.sites.values()],
        "validation": [len(rows.validation) for rows in partition.sites.values()],
        "test": [len(rows.test) for rows in partition.sites.values()],
    }
    for (part, sizes), colour in zip(parts.items(), ("#1f4e79", "#7fa8d0", "#c9c9c9"), strict=True):
        if any(sizes):
            above = below + np.array(sizes)
            axes.stairs(above, edges, baseline=below, fill=True, color=colour, label=part)
            below = above
    axes.set_ylabel("records")
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False)


def _map(figure: Figure, axes: Axes, counts: I64, *, numbers: bool) -> None:
    top = max(int(counts.max()), 1)
    # the root: a few records can still be told from none beside thousands
    norm = PowerNorm(0.5, vmin=0, vmax=top)
    image = axes.imshow(counts.T, cmap="Blues", norm=norm, aspect="auto", interpolation="none")
    figure.colorbar(image, ax=axes, label="training records of a class", fraction=0.05, pad=0.02)
    axes.set_xlabel("site")
    if not numbers:
        return
    for site, column in enumerate(counts):
        for index in np.flatnonzero(column):
            dark = norm(column[index]) > 0.6
            colour = "white" if dark else "black"
            axes.text(site, int(index), str(column[index]), ha="center", va="center", fontsize=6, color=colour)


def _label(axes: Axes, names: list[str], *, width: float, axis: str) -> None:
    """Every name, or every 2nd, 5th, 10th, … where they would touch."""
    most = max(int(width / _LABELS_FROM), 1)
    step = next(each for each in _STEPS if len(names) <= each * most)
    ticks = list(range(0, len(names), step))
    shown = [_shown(name) for name in names[::step]]
    if axis == "x":
        axes.set_xticks(ticks, labels=shown, rotation=90, parse_math=False)
    else:
        axes.set_yticks(ticks, labels=shown, parse_math=False)


def _shown(name: str) -> str:
    """A name as it fits: shortened, and without what no XML may hold."""
    plain = "".join(letter if letter.isprintable() else "�" for letter in name)
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
