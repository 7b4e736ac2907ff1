"""A partition as numbers: counts of the classes at each site, and rows for the terminal."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from secureproto.simulation.partition.division import Partition
from secureproto.simulation.population import Rows
from secureproto.simulation.shift import Shift


def class_counts(parts: Sequence[Rows], labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """(sites, C) records of each class; `parts`: the rows of each site, `labels`: those of the pool."""
    counts = [np.bincount(labels[rows], minlength=classes) for rows in parts]
    return np.stack(counts).astype(np.int64)


def training_rows(partition: Partition) -> list[Rows]:
    """What each site may learn from, validation included, in the order of the sites."""
    return [np.concatenate([rows.train, rows.validation]) for rows in partition.sites.values()]


def table(partition: Partition, labels: NDArray[np.int64], classes: Sequence[str]) -> list[dict[str, object]]:
    """One row a site: records of each part, classes held, the largest class with its share; the shift, if any."""
    counts = class_counts(training_rows(partition), labels, len(classes))
    shifted = any(rows.shift is not None for rows in partition.sites.values())
    found = []
    for (site, rows), held in zip(partition.sites.items(), counts, strict=True):
        largest = int(held.argmax())
        row: dict[str, object] = {
            "site": site,
            "train": len(rows.train),
            "validation": len(rows.validation),
            "test": len(rows.test),
            "classes": int(np.count_nonzero(held)),
            "largest": f"{classes[largest]} ({held[largest] / held.sum():.0%})",
        }
        found.append({**row, "shift": _shift(rows.shift)} if shifted else row)
    return found


def _shift(shift: Shift | None) -> str:
    if shift is None:
        return "none"
    turned = f", turned {90 * shift.quarter_turns}°" if shift.quarter_turns else ""
    return f"×{shift.gain:.2f} {shift.offset:+.2f}{turned}"
