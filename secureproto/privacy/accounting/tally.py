"""A composition as numbers of equal steps: what every accountant reckons with, whoever put the events in which order.

Invariants: a tally does not depend on the order of the events, on how steps were cut into events, or on how a ledger
was cut into compositions; it hashes, so that figures can be kept by it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum

from secureproto.privacy.events import Composition, SampledGaussian, Unprotected

LEAST_NOISE = 1e-9  # one release with less costs an ε of over 10^17: as good as none, and squares of it underflow


@dataclass(frozen=True, order=True)
class Part:
    """`count` steps of one noise multiplier and one sampling rate; a rate of 1 is the Gaussian mechanism itself."""

    sample_rate: float
    noise_multiplier: float
    count: int

    @property
    def sampled(self) -> bool:
        """Whether records take part by chance, so that the closed form does not hold."""
        return self.sample_rate < 1


@dataclass(frozen=True)
class Tally:
    """All parts, sorted; `unprotected` says that something left without noise, or next to it, and ε is infinite."""

    parts: tuple[Part, ...]
    unprotected: bool

    @property
    def steps(self) -> int:
        """Releases and steps altogether."""
        return sum(part.count for part in self.parts)

    @property
    def sampled(self) -> tuple[Part, ...]:
        """The parts without closed form."""
        return tuple(part for part in self.parts if part.sampled)

    @property
    def mu_squared(self) -> float:
        """μ² of all unsampled releases together: Gaussians compose to one Gaussian, the squares of their μ add up."""
        return fsum(part.count / part.noise_multiplier**2 for part in self.parts if not part.sampled)


def joined(*tallies: Tally) -> Tally:
    """The steps of all tallies together."""
    counts: Counter[tuple[float, float]] = Counter()
    for part in (part for one in tallies for part in one.parts):
        counts[part.sample_rate, part.noise_multiplier] += part.count
    return _sorted(counts, any(one.unprotected for one in tallies))


def tally(*compositions: Composition) -> Tally:
    """The steps of all compositions together."""
    counts: Counter[tuple[float, float]] = Counter()
    unprotected = False
    for event, times in (item for composition in compositions for item in composition):
        if isinstance(event, Unprotected) or event.noise_multiplier < LEAST_NOISE:
            unprotected = unprotected or times > 0
        elif isinstance(event, SampledGaussian):
            counts[event.sample_rate, event.noise_multiplier] += event.steps * times
        else:
            counts[1.0, event.noise_multiplier] += times
    return _sorted(counts, unprotected)


def _sorted(counts: Mapping[tuple[float, float], int], unprotected: bool) -> Tally:
    return Tally(tuple(sorted(Part(*key, count) for key, count in counts.items() if count > 0)), unprotected)
