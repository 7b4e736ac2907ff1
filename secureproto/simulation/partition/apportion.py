"""Whole numbers in given proportions, and records drawn so that the proportions of their classes stay.

`apportion` is the method of largest remainders (Hamilton): every share is its quota rounded down or up, and the sum
is exact. Bounds on shares come first where they do not agree with that.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from secureproto.simulation.population import Rows

I64 = NDArray[np.int64]


def apportion(total: int, weights: I64, *, lower: I64 | None = None, upper: I64 | None = None) -> I64:
    """Integers in proportion to `weights` (non-negative integers, total · sum under 2^63) that sum to `total`.

    Each lies between its bounds; a total that the bounds do not allow becomes the nearest that they do. Ties go to
    the first.
    """
    low = np.zeros(len(weights), dtype=np.int64) if lower is None else lower
    high = np.maximum(low, total) if upper is None else upper
    whole = max(int(weights.sum()), 1)
    shares: I64 = np.clip(total * weights // whole, low, high)
    total = min(max(total, int(low.sum())), int(high.sum()))
    while gap := total - int(shares.sum()):
        step = 1 if gap > 0 else -1
        free = np.flatnonzero(shares < high) if gap > 0 else np.flatnonzero(shares > low)
        missing = total * weights[free] - shares[free] * whole
        shares[free[np.argsort(-step * missing, kind="stable")[: abs(gap)]]] += step
    return shares


class Halves(NamedTuple):
    """Rows divided in two."""

    kept: Rows
    held: Rows


def hold_back(
    rows: Rows, labels: I64, share: float, generator: np.random.Generator, *, every_class: bool = False
) -> Halves:
    """A share of `rows` held back, class by class; `labels` are those of the whole pool.

    One record at least is held back and one kept, if there are two. A class keeps one at least, and a class of one
    record keeps it unless the others cannot make up the share; then such classes are drawn. `every_class`: of a class
    of two or more records one at least is held back, though the share be exceeded. Fewer than two records: all kept.
    """
    if len(rows) < 2:
        return Halves(rows, rows[:0])
    counts: I64 = np.bincount(labels[rows])
    spare = np.maximum(counts - 1, 0)
    wanted = min(max(round(share * len(rows)), 1), len(rows) - 1)
    lower = np.minimum(spare, 1) if every_class else None
    take = apportion(wanted, counts, lower=lower, upper=spare)
    single = generator.permutation(np.flatnonzero(counts == 1))
    take[single[: max(wanted - int(take.sum()), 0)]] = 1
    rows = generator.permutation(rows)
    held = _first_of_classes(rows, labels, take)
    return Halves(rows[~held], rows[held])


def thin_out(rows: Rows, labels: I64, count: int, generator: np.random.Generator) -> Rows:
    """`count` of `rows`, in the proportions of their classes; each class keeps one, if `count` allows it.

    Needs: count ≤ number of rows.
    """
    counts: I64 = np.bincount(labels[rows])
    present = np.minimum(counts, 1)
    lower = present if count >= present.sum() else None
    rows = generator.permutation(rows)
    return rows[_first_of_classes(rows, labels, apportion(count, counts, lower=lower, upper=counts))]


def _first_of_classes(rows: Rows, labels: I64, take: I64) -> NDArray[np.bool_]:
    """Which of `rows` are among the first `take[j]` of their class j."""
    classes = labels[rows]
    order = np.argsort(classes, kind="stable")
    counts = np.bincount(classes, minlength=len(take))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
    chosen: NDArray[np.bool_] = rank < take[classes]
    return chosen
