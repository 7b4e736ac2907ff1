"""The noise and the samples of a simulated private round: of the right distribution, from a seed.

A simulation is to give the same numbers when it is done again, on any engine, and nothing of it leaves; so its chance
may be foreseen, which that of a real site must not be (there: the system's cryptographic source).

Invariants: equal seeds give equal numbers, in whatever process; a site has a stream of its own in each round. Normal
numbers rounded to whole steps stand for the discrete Gaussian: at 1,024 steps of noise and more the two cannot be
told apart in any simulation.
"""

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from secureproto.learning.private.site import Chance
from secureproto.study.schema import StudyFile
from secureproto.wire import canonical

LABEL = "secureproto/v1/simulated-noise"


class _Seeded:
    """A NoiseSource, a Sampler and a GridNoise over one stream."""

    scale = 1.0

    def __init__(self, key: bytes) -> None:
        self._generator = np.random.Generator(np.random.Philox(int.from_bytes(key[:16], "big")))

    def take(self, count: int) -> NDArray[np.float64]:
        """(count,) standard normal numbers."""
        return self._generator.standard_normal(count)

    def draw(self, records: int, rate: float) -> NDArray[np.int64]:
        """Rows of a Poisson sample."""
        return np.flatnonzero(self._generator.random(records) < rate).astype(np.int64)

    def on_grid(self, values: NDArray[np.int64], noise_steps: float) -> NDArray[np.int64]:
        """Whole numbers with noise of that many steps."""
        noise = np.rint(self._generator.standard_normal(values.shape) * noise_steps)
        return values + noise.astype(np.int64)


def simulated_chance(study: StudyFile, *, site: str, round_number: int) -> Chance:
    """The chance of one site's round, from the study's seed."""
    path = canonical.encode([study.model.seed, study.name, site, round_number])
    seeded = _Seeded(sha256(canonical.length_prefixed(LABEL.encode(), path)).digest())
    return Chance(seeded, seeded, seeded.on_grid)
