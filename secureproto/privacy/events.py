"""What a release was, for the accountant: the mechanism and its public parameters, never an ε and never a value.

Invariants: an event says all that its privacy cost depends on; equal events compare equal, so that a ledger of
thousands becomes a few multiples; `merge` does not depend on the order of what it is given.
Adjacency is add/remove of one record everywhere (PRIVACY.md, "Definition").
Sources: the Gaussian mechanism (Dwork, Roth 2014, appendix A); the Poisson-subsampled Gaussian mechanism
(Mironov, Talwar, Zhang 2019, section 3), which DP-SGD repeats (Abadi et al. 2016).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isfinite

MAX_STEPS = 10**9  # of one event; far below 2^53, over what a study can ask for in a lifetime


@dataclass(frozen=True)
class Gaussian:
    """One release with Gaussian noise of `noise_multiplier` times its L2 sensitivity.

    Raises:
        ValueError: a noise multiplier that is not a finite number over 0.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True)
class SampledGaussian:
    """`steps` steps, each on a Poisson sample of rate `sample_rate`, with noise as of `Gaussian`.

    Raises:
        ValueError: a noise multiplier as above, a rate outside (0, 1], or steps outside 1 … MAX_STEPS.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)
        if not 0 < self.sample_rate <= 1:
            raise ValueError("sample_rate is over 0 and at most 1")
        if not 1 <= self.steps <= MAX_STEPS:
            raise ValueError(f"steps are 1 to {MAX_STEPS}")


@dataclass(frozen=True)
class Unprotected:
    """A release of what depends on the data, without noise: its ε is infinite."""


Mechanism = Gaussian | SampledGaussian | Unprotected
Composition = tuple[tuple[Mechanism, int], ...]  # each mechanism with how often it was used


def merge(events: Iterable[Mechanism]) -> Composition:
    """The multiset of events in one order: steps of equal sampled mechanisms added up, equal releases counted."""
    times: Counter[Mechanism] = Counter()
    steps: Counter[tuple[float, float]] = Counter()
    for event in events:
        if isinstance(event, SampledGaussian):
            steps[event.noise_multiplier, event.sample_rate] += event.steps
        else:
            times[event] += 1
    for (noise_multiplier, sample_rate), total in steps.items():
        whole, rest = divmod(total, MAX_STEPS)
        if whole:
            times[SampledGaussian(noise_multiplier, sample_rate, MAX_STEPS)] += whole
        if rest:
            times[SampledGaussian(noise_multiplier, sample_rate, rest)] += 1
    return tuple(sorted(times.items(), key=lambda item: _order(item[0])))


def repeated(event: Mechanism, times: int) -> Iterable[Mechanism]:
    """The event `times` times, as few events as possible: steps are added up where they can be."""
    if isinstance(event, SampledGaussian) and 0 < event.steps * times <= MAX_STEPS:
        return [replace(event, steps=event.steps * times)]
    return [event] * times


def _order(event: Mechanism) -> tuple[str, float, float, int]:
    if isinstance(event, Unprotected):
        return ("unprotected", 0.0, 0.0, 0)
    if isinstance(event, Gaussian):
        return ("gaussian", event.noise_multiplier, 0.0, 0)
    return ("sampled", event.noise_multiplier, event.sample_rate, event.steps)


def _positive(name: str, value: float) -> None:
    if not (isfinite(value) and value > 0):
        raise ValueError(f"{name} is a finite number over 0")
