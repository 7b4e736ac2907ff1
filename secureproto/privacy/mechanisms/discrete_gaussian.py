"""Discrete Gaussian noise on whole numbers, by OpenDP's sampler: the only generator on the path of prototypes.

The sampler is exact (Canonne, Kamath, Steinke 2020, algorithm 3): rational arithmetic on bits of a cryptographic
source, no floating-point number between the bits and the noise, so that no low-order digit tells what was added to
(Mironov 2012). NumPy's and torch's generators are not cryptographic, and never stand in for it.

Invariants: the only thing returned is the noised matrix; a sum beyond int64 becomes the nearest int64, which is a
function of the noised value and so costs nothing. Import this module late: it loads OpenDP.
"""

from collections.abc import Callable
from functools import lru_cache
from math import isfinite

import numpy as np
import opendp.prelude as dp

from secureproto.privacy.mechanisms.grid import I64

# An accountant that reckons with the continuous Gaussian's privacy profile (PLD) needs noise much wider than a step:
# at 1,024 steps δ(ε) of the two agree to 2·10^-6 of itself (a test computes both), at the 10^6 in use to 10^-11.
MIN_NOISE_STEPS = 1024.0
MAX_NOISE_STEPS = 2.0**55  # 40 standard deviations stay under 2^61, so int64 does not fill up with noise alone

# OpenDP calls what has not been through its own committee "contrib", and the Gaussian is among it. Switching it on
# is for the whole process and only allows constructors to be called.
dp.enable_features("contrib")


@lru_cache(maxsize=8)
def _measurement(noise_steps: float) -> dp.Measurement:
    """A measurement is bound to one scale and keeps nothing of what it noised."""
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=noise_steps)


def add_noise(values: I64, noise_steps: float) -> I64:
    """`values` (any shape) plus independent discrete Gaussian noise on every entry.

    Args:
        noise_steps: its standard deviation, in steps.

    Each call draws anew: whoever calls twice has released twice.

    Raises:
        ValueError: a standard deviation outside its bounds, or values that are not int64.
    """
    if not (isfinite(noise_steps) and MIN_NOISE_STEPS <= noise_steps <= MAX_NOISE_STEPS):
        raise ValueError("the noise must be at least 1,024 steps of the grid wide, and finite")
    if values.dtype != np.int64:
        raise ValueError("noise of the grid goes on whole numbers, int64")
    noised = _measurement(float(noise_steps))(values.ravel().tolist())
    return np.array(noised, dtype=np.int64).reshape(values.shape)


def concentrated_cost(sensitivity_steps: float, noise_steps: float) -> float:
    """ρ of one release, zero-concentrated, as OpenDP itself reckons it: Δ²/(2σ²). A check on our own figures."""
    privacy_map: Callable[..., float] = _measurement(float(noise_steps)).map
    return privacy_map(d_in=sensitivity_steps)
