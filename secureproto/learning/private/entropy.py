"""Uniform bits for sampling and noise, from the operating system's cryptographic source and from nowhere else.

Invariant: no generator with a seed is involved, so nothing can repeat or predict a draw: torch's CPU generator keeps
32 bits of its seed, which could be tried one by one.
"""

import os

import numpy as np
from numpy.typing import NDArray

BITS = 53  # what a float64 holds exactly


def integers(count: int) -> NDArray[np.uint64]:
    """`count` independent integers, uniform over 0 … 2^53 - 1."""
    words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    return words >> np.uint64(64 - BITS)
