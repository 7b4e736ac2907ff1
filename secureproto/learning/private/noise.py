"""Standard Gaussian numbers from the operating system's cryptographic source, in float64.

What it is to be called in a report: "cryptographic source, not floating-point-proof" (PRIVACY.md, "Noise"): nobody
can predict or repeat the noise, but float64 has gaps, which the attack of Mironov (CCS 2012) reads; releases on an
integer grid use the discrete mechanism instead.

Invariants: torch's generators are never asked, nor is any seed; numbers are independent; none is over 8.6 in size
(its true chance is 1e-17); one that was handed out is never handed out again.
Source: Box and Muller 1958.
"""

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from math import pi
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from secureproto.learning.private import entropy

# pairs of a block: it stays in the processor's cache, and below the size from which torch would start threads
BLOCK = 8192

log = logging.getLogger(__name__)


class NoiseSource(Protocol):
    """Where the noise of a training comes from. `scale`: 1.0, or 0.0 of a source that gives none."""

    scale: float

    def take(self, count: int) -> NDArray[np.float64]:
        """(count,) standard Gaussian numbers times `scale`, that no other call gets; they belong to the caller."""
        ...


def gaussian(count: int) -> NDArray[np.float64]:
    """(count,) independent numbers of mean 0 and standard deviation 1."""
    result = np.empty(count)
    for start in range(0, count, 2 * BLOCK):
        part = result[start : start + 2 * BLOCK]
        pairs = _pairs((len(part) + 1) // 2)
        part[:] = pairs[: len(part)]
    return result


def _pairs(count: int) -> NDArray[np.float64]:
    """(2 · count,): r cos t and r sin t, with r² = -2 ln u."""
    uniform = entropy.integers(2 * count).astype(np.float64)
    radius, angle = uniform[:count], uniform[count:]
    radius += 1.0  # 1 … 2^53: the logarithm of 0 is none
    radius *= 2.0**-entropy.BITS
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    angle *= 2 * pi * 2.0**-entropy.BITS
    result = np.empty((2, count))
    # torch's sine and cosine are ten times as fast as NumPy's; they are functions, no generator is near them
    turned = torch.from_numpy(angle)
    torch.cos(turned, out=torch.from_numpy(result[0]))
    torch.sin(turned, out=torch.from_numpy(result[1]))
    result *= radius
    return result.reshape(-1)


class SecureNoise:
    """Noise as of `gaussian`, drawn ahead by a second thread while a step computes.

    A context manager: the thread ends with it. Numbers drawn ahead and not taken are thrown away.
    """

    scale = 1.0

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="noise")
        self._ahead: tuple[int, Future[NDArray[np.float64]]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def take(self, count: int) -> NDArray[np.float64]:
        """As of `NoiseSource`; what is drawn ahead is as much again."""
        ahead, self._ahead = self._ahead, None  # taken out before it is used: no number is handed out twice
        numbers = ahead[1].result() if ahead is not None and ahead[0] == count else gaussian(count)
        self._ahead = (count, self._thread.submit(gaussian, count))
        return numbers


class NoNoise:
    """Zeros, for audits and tests of sensitivity only: nothing computed with it may leave, and the log says so."""

    scale = 0.0

    def __init__(self) -> None:
        log.warning("NOISE IS OFF: what this training gives is not private and must not leave")

    def take(self, count: int) -> NDArray[np.float64]:
        """Zeros."""
        return np.zeros(count)
