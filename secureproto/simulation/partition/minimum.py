"""No site too small to train: a drawn division is repaired, never drawn again until it happens to fit.

Drawing again (as the published code for Dirichlet divisions does) never ends where a site is small in nearly every
draw: many sites, or a small α.
"""

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]


def fill_up(counts: I64, least: int) -> I64:
    """Counts (m, C) of the classes at the sites, changed so that each site has `least` records; a new array.

    The sites that have fewer are filled in their order. Each gets records of the classes that it holds, the one it
    has most of first, from the largest site that has some of them to spare; only when nobody has, records of another
    class: what the largest site has most of. A site gives no more than it has above `least`. Nothing is drawn.

    Needs: m · least records in all.
    """
    counts = counts.copy()
    sizes = counts.sum(axis=1)
    for site in np.flatnonzero(sizes < least):
        while sizes[site] < least:
            donor, kind = _donor(counts, sizes, site, least)
            moved = min(least - sizes[site], counts[donor, kind], sizes[donor] - least)
            counts[donor, kind] -= moved
            counts[site, kind] += moved
            sizes[donor] -= moved
            sizes[site] += moved
    return counts


def _donor(counts: I64, sizes: I64, site: np.intp, least: int) -> tuple[int, int]:
    """Who gives, and of which class."""
    spare = np.where(sizes > least, sizes, 0)
    for kind in np.argsort(-counts[site], kind="stable"):
        if counts[site, kind] == 0:
            break
        able = np.where(counts[:, kind] > 0, spare, 0)
        if able.any():
            return int(able.argmax()), int(kind)
    donor = int(spare.argmax())
    return donor, int(counts[donor].argmax())
