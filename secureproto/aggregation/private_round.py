"""What of a round is different under privacy: noisy class sums in some rounds, none in the others.

    1. In a round that releases, each site's class sums are checked and decoded (`noisy.check_noisy`); in another one
       they must be zeros, for whatever else came would be a release that nobody charged.
    2. Global prototypes from the noisy sums (`noisy.combine_noisy`), or those of before, a round older.
    3. Heads by the relation of the noisy sums (`noisy_relation`), or without a release the mean of all heads.

Why the mean in 3.: a relation is known for the version that was released with, and only for it. Own heads alone would
keep all of DP-SGD's noise, which the mean over m sites divides by √m (decision 10).

Invariant: a function of what was released and of public constants, so it costs no privacy (post-processing).
Source: PRIVACY.md, "Prototypes", "Relation and heads from noisy prototypes".
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.layout import F64
from secureproto.aggregation.noisy import NoisyOptions, carried, check_noisy, combine_noisy, decoded
from secureproto.aggregation.noisy_relation import personalise_noisy
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.errors import Rejected
from secureproto.wire.reasons import Reason


@dataclass(frozen=True, eq=False)
class Released:
    """`prototypes`; `heads` (m, H) after mixing, by `form`; `relation` (m, m) or None; `marked` (m,): sites of too
    little signal."""

    prototypes: GlobalPrototypes
    heads: F64
    form: Literal["matrix", "linear"]
    relation: F64 | None
    marked: NDArray[np.bool_]


@dataclass(frozen=True)
class PrivateRound:
    """A round of a study with `[privacy]`. `releases`: whether it is one in which class sums are released."""

    noisy: NoisyOptions
    releases: bool

    def checked(self, matrix: F64, *, site: str) -> F64:
        """Class sums (C, d+1) as they are used, of those (C, d+1) that came.

        Raises:
            Rejected: NON_FINITE, SCHEMA, NORM_BOUND: as `check_noisy`; SCHEMA where none should have come.
        """
        if self.releases:
            check_noisy(matrix, self.noisy.grid, site=site)
            return decoded(matrix, self.noisy.grid)
        if matrix.any():
            raise Rejected(Reason.SCHEMA, f"site {site!r}: class sums in a round that releases none")
        return matrix

    def combine(self, class_sums: F64, heads: F64, previous: GlobalPrototypes) -> Released:
        """What the round makes of checked class sums (m, C, d+1) and heads (m, H), sites sorted by their ids."""
        sites = len(heads)
        if not self.releases:
            # without a release there is no relation, and it says so: every site gets the same of every head
            mean = np.broadcast_to(heads.mean(axis=0), heads.shape)
            return Released(carried(previous), mean, "matrix", None, np.zeros(sites, dtype=bool))
        mixed = personalise_noisy(class_sums, heads, self.noisy, comparable=np.ones(sites, dtype=bool))
        prototypes = combine_noisy(class_sums, previous, self.noisy).prototypes
        return Released(prototypes, mixed.heads, mixed.form, mixed.relation, mixed.marked)
