"""Which records take part in a step: each with the public rate q, on its own (Poisson sampling).

Invariants: whether a record is in a step depends on no other record; a step may have none, or all, and is a step all
the same, because the accountant counts it; the chance is q rounded down to a multiple of 2^-53, so never over what is
accounted. Source: Mironov, Talwar, Zhang 2019 ("Rényi differential privacy of the sampled Gaussian mechanism").
"""

from math import floor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from secureproto.learning.private import entropy


class Sampler(Protocol):
    """Draws the records of a step."""

    def draw(self, records: int, rate: float) -> NDArray[np.int64]:
        """Row numbers, ascending, without repetition, out of 0 … records - 1."""
        ...


class PoissonSampler:
    """Poisson sampling with bits of `secureproto.learning.private.entropy`."""

    def draw(self, records: int, rate: float) -> NDArray[np.int64]:
        """Row numbers of one step; empty at times.

        Raises:
            ValueError: a rate outside (0, 1].
        """
        if not 0 < rate <= 1:
            raise ValueError("a sample rate is over 0 and at most 1")
        chosen = entropy.integers(records) < np.uint64(floor(rate * 2**entropy.BITS))
        return np.flatnonzero(chosen).astype(np.int64)
