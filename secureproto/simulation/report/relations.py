"""How much of each site's head a site gets, as heat maps over the rounds."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from secureproto.simulation.history import History, RoundRecord
from secureproto.simulation.report.drawing import INK, Plot, figure, plot, shortened

SHOWN = 4  # matrices of one method
_NAMED = 12  # sites by name at the edges
_LETTERS = 14  # of a name in one line
_NUMBERED = 6  # sites with their shares written in the cells


def relation_maps(runs: Mapping[str, Sequence[History]], key: str = "") -> list[Plot]:
    """The relation in the first run of each method that has one: first round, some between, last.

    `key` begins those of the plots.
    """
    found = {label: chosen for label, histories in runs.items() if (chosen := _first_run(histories)) is not None}
    return [
        plot(
            f"{key}relation-of-{place}",
            partial(_maps, records),
            title=label,
            alternative=f"Heat maps of the relation matrix of {label} in rounds "
            f"{', '.join(str(record.number) for record in records)}, seed {seed}.",
            reading="A row is a site, a column whose head it gets: the darker, the greater the share, and a row sums "
            "to one. A dark diagonal means that sites keep to themselves, an even tint that all get the same mean. "
            f"Seed {seed}.",
        )
        for place, (label, (seed, records)) in enumerate(found.items())
    ]


def _first_run(histories: Sequence[History]) -> tuple[int, list[RoundRecord]] | None:
    for history in sorted(histories, key=lambda history: (not history.complete, history.seed)):
        records = [record for record in history.rounds if record.relation is not None]
        if records:
            places = np.unique(np.linspace(0, len(records) - 1, SHOWN).round().astype(int))
            return history.seed, [records[place] for place in places]
    return None


def _maps(records: Sequence[RoundRecord]) -> Figure:
    names = list(records[0].sites)
    longest = max((min(len(name), _LETTERS) for name in names), default=0) if len(names) <= _NAMED else 0
    drawn = figure(2.45 + 0.07 * longest, square_panels=True)
    row = drawn.subplots(1, SHOWN, squeeze=False)[0]
    highest = max(max(map(max, record.relation or ((0.0,),))) for record in records)
    images = [_map(axes, record, highest, named=axes is row[0]) for axes, record in zip(row, records, strict=False)]
    for axes in row[len(records) :]:
        axes.set_axis_off()
    drawn.colorbar(images[-1], ax=list(row), pad=0.01).set_label("share")
    return drawn


def _map(axes: Axes, record: RoundRecord, highest: float, *, named: bool) -> QuadMesh:
    shares = np.array(record.relation)
    m = len(shares)
    edges = np.arange(m + 1) - 0.5
    image = axes.pcolormesh(edges, edges, shares, cmap="Blues", vmin=0, vmax=highest, rasterized=m > 16)
    axes.set_xlim(-0.5, m - 0.5)
    axes.set_ylim(m - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.set_title(f"round {record.number}", fontsize=8.5)
    names = list(record.sites)
    if len(names) != m or m > _NAMED:
        axes.set_xticks([])
        axes.set_yticks([])
        if named:
            axes.set_ylabel(f"{m} sites")
    else:
        axes.set_xticks(range(m), [shortened(name, _LETTERS) for name in names], rotation=90, fontsize=7.5)
        axes.set_yticks(range(m), [shortened(name, _LETTERS) for name in names] if named else [""] * m, fontsize=7.5)
    if m <= _NUMBERED:
        for i, j in np.ndindex(m, m):
            dark = shares[i, j] > 0.6 * highest
            axes.text(
                j, i, f"{shares[i, j]:.2f}", ha="center", va="center", fontsize=7, color="white" if dark else INK
            )
    return image
