"""The prototype mechanism: class sums and counts of a site, made so that one record changes little, then noised.

    1. A record's embedding z is clipped to R; with the constant c for the count it is rounded to the grid (`grid`).
       A bad record (NaN, infinite, a class that is none) has a row of zeros: it stops nothing and changes nothing.
    2. The rows of each class are added, exactly. All C classes are there, whether the site holds them or not.
    3. Discrete Gaussian noise of standard deviation σ_p Δ goes on **every** entry (`discrete_gaussian`).
    4. The noised matrix leaves, once.

Invariants: adding or removing one record, whatever it is, changes the exact matrix in one row and by at most Δ
(L2), so a release is one event `Gaussian(σ_p)`; noise depends on public parameters alone, never on how many records
there are; without noise, sums and counts are those of the method to half a grid step a record.
What the caller owes: embeddings made record by record (no statistic of the batch), the charge on the ledger before
`release`, and that `bad_records` stays at the site.
Source: PRIVACY.md, "Prototypes"; METHOD.md, step 4.

On the wire: float64 (C, d+1), whole numbers of grid steps, sums first and in the last column the count times
`count_steps`. The server divides by both (`aggregation.noisy.decoded`): grid integers show that nothing finer than
the grid, such as the low-order digits of a floating-point sum, was sent along.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from secureproto.privacy.events import Mechanism, Unprotected
from secureproto.privacy.mechanisms.discrete_gaussian import add_noise
from secureproto.privacy.mechanisms.grid import (
    F64,
    I64,
    PrototypeGrid,
    add_exactly,
    class_totals,
    rounded_rows,
)

GridNoise: TypeAlias = Callable[[I64, float], I64]  # (whole numbers, standard deviation in steps)
Classes: TypeAlias = NDArray[np.integer] | NDArray[np.floating]

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Release:
    """What leaves, and what it was: nothing here is private.

    `matrix`: (C, d+1) float64, whole numbers of steps. `grid`: the public parameters. `event`: for the ledger.
    """

    matrix: F64 = field(repr=False)
    grid: PrototypeGrid
    event: Mechanism


class PrototypeSums:
    """Takes a site's records in batches, in any order; releases once. Private until then, and not shown by repr."""

    def __init__(self, grid: PrototypeGrid) -> None:
        self._grid = grid
        self._totals: I64 | None = np.zeros((grid.classes, grid.width + 1), dtype=np.int64)
        self._bad = 0

    @property
    def bad_records(self) -> int:
        """Records that had a row of zeros. For the site's own log: it is as private as a record."""
        return self._bad

    def add(self, embeddings: NDArray[np.floating], classes: Classes) -> None:
        """Records with embeddings (n, d), and their classes (n,), of any numeric dtype. None of their values raises.

        Raises:
            ValueError: shapes that do not fit, or use after the release.
        """
        if self._totals is None:
            raise ValueError("these sums were released; another release is another event")
        totals, bad = exact_sums(embeddings, classes, self._grid)
        self._totals = add_exactly(self._totals, totals)
        self._bad += bad

    def release(self, *, noise: GridNoise | None = None, without_noise_for_tests_only: bool = False) -> Release:
        """The noised matrix. Ends the use of these sums: a second draw on them would be a second release.

        Args:
            noise: for a simulation, where nothing leaves, noise of that distribution from a seed; as an event without
                a guarantee. Else OpenDP's.
            without_noise_for_tests_only: release the exact matrix, as an event without a guarantee, with a warning.

        Raises:
            ValueError: a second release.
        """
        if self._totals is None:
            raise ValueError("these sums were released; another release is another event")
        totals, self._totals = self._totals, None
        if without_noise_for_tests_only:
            log.warning("PROTOTYPES WITHOUT NOISE: exact class sums and counts leave, which only a test may do")
            return Release(totals.astype(np.float64), self._grid, Unprotected())
        if noise is not None:
            return Release(noise(totals, self._grid.noise_steps).astype(np.float64), self._grid, Unprotected())
        noised = add_noise(totals, self._grid.noise_steps)
        return Release(noised.astype(np.float64), self._grid, self._grid.event)


def exact_sums(embeddings: NDArray[np.floating], classes: Classes, grid: PrototypeGrid) -> tuple[I64, int]:
    """The exact matrix (C, d+1) in steps, without noise, and how many records were bad. Both private.

    Raises:
        ValueError: shapes or dtypes that do not fit: embeddings (n, d) floating, classes (n,) numeric.
    """
    if embeddings.ndim != 2 or embeddings.shape[1] != grid.width or classes.shape != embeddings.shape[:1]:
        raise ValueError("embeddings are (n, d) and classes (n,)")
    if embeddings.dtype.kind != "f" or classes.dtype.kind not in "iuf":
        raise ValueError("embeddings are floating-point numbers and classes numbers")
    rows, good = rounded_rows(embeddings.astype(np.float64), grid)
    known = (classes >= 0) & (classes < grid.classes) & (classes == np.floor(classes))  # NaN compares as False
    keep = good & known
    index: I64 = np.where(keep, classes, -1).astype(np.int64)
    return class_totals(rows, index, grid.classes), int(len(keep) - keep.sum())
