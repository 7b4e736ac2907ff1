"""Privacy loss distributions: the ε of a plan that was declared before, near to the truth from above.

1. Equal steps are merged, all unsampled releases into one Gaussian.
2. The distribution is made at a discretisation of 1e-3; where its ε is above that of RDP, at 1e-4 and at 1e-5.
3. Where it still is above, or would take too much memory, there is no figure, and RDP's is the one to print.
4. A figure below an independent lower bound is an alarm: the accountant is broken, and nothing may be let out by it.

Invariants: a figure is at most RDP's and at least the lower bound.
Sources: Koskela, Jälkö, Honkela 2020; Doroshenko et al. 2022, "Connect the dots" (both as in dp-accounting).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import expm1, log1p, sqrt
from typing import Any

from dp_accounting.pld import privacy_loss_distribution

from secureproto.errors import IntegrityBroken
from secureproto.privacy.accounting import rdp
from secureproto.privacy.accounting.lower import lower_bound
from secureproto.privacy.accounting.tally import Part, Tally

INTERVALS = (1e-3, 1e-4, 1e-5)
MAX_BINS = 1 << 22  # of a distribution: 64 MB an array, a few of which a convolution needs, and about 3 s
STEPS_AT_ONCE = 10**5  # the library raises a size to the power of the steps, as an integer
# Fourier transforms to the n-th power are off by less than n of these, which were measured to be 10 times too many
ROUNDING = 2.2e-16
MAX_ROUNDING = 0.01  # of δ
SLACK = 1e-5  # of the lower bound, which is reckoned in doubles too
TAIL = 10.5  # standard deviations of noise that a distribution keeps (e^-50 of mass beyond)
LOG_CUT = 35.0  # -log of the mass that a convolution cuts off


@dataclass(frozen=True)
class PldFigure:
    """An ε with the discretisation at which it was found."""

    epsilon: float
    interval: float


@lru_cache(1024)
def figure(spent: Tally, delta: float) -> PldFigure | None:
    """ε of a composition at δ, add/remove adjacency; None where RDP's has to be printed.

    Raises:
        IntegrityBroken: the figure lies below what a test on the releases achieves.
    """
    if spent.unprotected:
        return None
    if not spent.parts:
        return PldFigure(0.0, INTERVALS[0])
    least, most = lower_bound(spent, delta), rdp.epsilon(spent, delta)[0]
    for interval in INTERVALS:
        found = _epsilon(_merged(spent), delta, interval)
        if found is None:
            return None
        if found < least * (1 - SLACK):
            raise IntegrityBroken(
                "the PLD accountant states less than a plain test achieves",
                hint="nothing may be released by it: compare the installed dp-accounting with the one tested",
            )
        if found <= most:
            return PldFigure(found, interval)
    return None


def _merged(spent: Tally) -> tuple[Part, ...]:
    gaussian = (Part(1.0, 1 / sqrt(spent.mu_squared), 1),) if spent.mu_squared > 0 else ()
    return gaussian + spent.sampled


def _epsilon(parts: tuple[Part, ...], delta: float, interval: float) -> float | None:
    rounding = ROUNDING * (sum(part.count for part in parts) + 100 * len(parts))
    if rounding > MAX_ROUNDING * delta or sum(_bins(part, interval) for part in parts) > MAX_BINS:
        return None
    composed = _distribution(parts[0], interval)
    for part in parts[1:]:
        composed = composed.compose(_distribution(part, interval))
    # what rounding may have hidden counts as broken
    return float(composed.get_epsilon_for_delta(delta - rounding))


def _distribution(part: Part, interval: float) -> Any:
    step = privacy_loss_distribution.from_gaussian_mechanism(
        part.noise_multiplier, sampling_prob=part.sample_rate, value_discretization_interval=interval
    )
    whole, rest = divmod(part.count, STEPS_AT_ONCE)
    if not whole:
        return step.self_compose(rest)
    composed = step.self_compose(STEPS_AT_ONCE).self_compose(whole)
    return composed.compose(step.self_compose(rest)) if rest else composed


def _bins(part: Part, interval: float) -> float:
    """About how many bins the composed distribution will have (within a factor of 2), before anything is allocated.

    As the library cuts: Chernoff's bound at 1 … 20 over the range of one step, whose second moment has `interval`
    times the mean loss added by the discretisation.
    """
    sigma, rate = part.noise_multiplier, part.sample_rate
    loss = (TAIL * sigma + 0.5) / sigma**2
    upper = log1p(rate * expm1(loss)) if loss < 700 else loss
    lower = min(upper, -log1p(-rate)) if rate < 1 else upper
    span = upper + lower + 2 * interval
    moment = min(rate**2 * expm1(min(sigma**-2, 700)), rate * (sigma**-2 + sigma**-4 / 4))
    moment += interval * sqrt(moment)
    if part.count == 1:
        return span / interval
    cut = min(2 * (LOG_CUT * span / order + part.count * moment * order / (2 * span)) for order in range(1, 21))
    return max(span, cut) / interval
