"""Global class prototypes: what the sites' class sums and counts become.

Invariants: a class held by fewer than `min_holders` participants is not renewed (with one holder the "global"
prototype would be that site's own); a class not renewed keeps its prototype, and its age grows by one a round; a
class never renewed is absent. A present prototype is a convex combination of the local ones.
Source: METHOD "Server side"; FedProto, eq. 6 (`samples`), with sums in place of means.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.layout import F64, I64

ABSENT = -1  # the age of a class that has no prototype

Weighting = Literal["samples", "uniform"]


@dataclass(frozen=True, eq=False)
class GlobalPrototypes:
    """`values` (C, d) float64; `age` (C,) int64: rounds since the class was renewed, -1 where it is absent.

    A row of an absent class is zero and means nothing.

    Raises:
        ValueError: shapes that do not fit each other, or an age under -1.
    """

    values: F64
    age: I64

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.age.shape != self.values.shape[:1]:
            raise ValueError("prototypes are (C, d) and their ages (C,)")
        if (self.age < ABSENT).any():
            raise ValueError("an age is -1 (absent) or a number of rounds")

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which classes have a prototype, (C,)."""
        present: NDArray[np.bool_] = self.age != ABSENT
        return present

    @staticmethod
    def absent(classes: int, width: int) -> "GlobalPrototypes":
        """What a study starts with: no class has a prototype."""
        return GlobalPrototypes(np.zeros((classes, width)), np.full(classes, ABSENT, dtype=np.int64))


def split(class_sums: F64) -> tuple[F64, F64]:
    """Sums (…, C, d) and counts (…, C) of matrices (…, C, d+1), as views."""
    return class_sums[..., :-1], class_sums[..., -1]


def local_means(class_sums: F64) -> F64:
    """Local prototypes c_ij = s_ij / n_ij, (m, C, d); zeros for a class not held."""
    sums, counts = split(class_sums)
    means = np.zeros(sums.shape)
    np.divide(sums, counts[..., None], out=means, where=counts[..., None] > 0)
    return means


def combine(
    class_sums: F64, previous: GlobalPrototypes, *, weighting: Weighting, min_holders: int
) -> GlobalPrototypes:
    """The global prototypes after a round.

    Args:
        class_sums: (m, C, d+1), sums then counts, sites in the order of their ids, checked by `intake`.
        previous: those of the version the round started from.
        weighting: `samples`: Σ s_ij / Σ n_ij; `uniform`: the plain mean of c_ij over the holders.
        min_holders: participants that must hold a class for it to be renewed.

    Raises:
        ValueError: shapes that do not fit, or `min_holders` under 1.
    """
    if class_sums.ndim != 3 or len(class_sums) == 0 or class_sums[0, :, :-1].shape != previous.values.shape:
        raise ValueError("class sums are (m, C, d+1) with m >= 1, and previous prototypes (C, d)")
    if min_holders < 1:
        raise ValueError("min_holders is at least 1")
    sums, counts = split(class_sums)
    holders = (counts > 0).sum(axis=0)
    if weighting == "samples":
        total, weight = sums.sum(axis=0), counts.sum(axis=0)
    else:
        total, weight = local_means(class_sums).sum(axis=0), holders.astype(np.float64)
    renewed = holders >= min_holders
    values = previous.values.copy()
    values[renewed] = total[renewed] / weight[renewed, None]
    age = np.where(previous.present, previous.age + 1, ABSENT)
    age[renewed] = 0
    return GlobalPrototypes(values, age)
