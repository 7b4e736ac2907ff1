"""Rényi differential privacy of a composition, and the gate: a filter at one order that is fixed with the budget.

Invariants: the cost of a composition is the sum of the costs of its steps, each of them reckoned once; more events
never cost less; what the filter lets through never costs more than its ε at its δ, whatever was chosen after what.
Sources: Mironov, Talwar, Zhang 2019, "Rényi differential privacy of the sampled Gaussian mechanism", section 3.3 (by
dp-accounting); Canonne, Kamath, Steinke 2020, proposition 12 (from RDP to ε); Feldman, Zrnic 2021, "Individual
privacy accounting via a Rényi filter", and Lécuyer 2021, "Practical privacy filters and odometers with Rényi
differential privacy": the sum at one order, fixed beforehand, may be of mechanisms chosen adaptively.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, fsum, inf, isfinite, isnan, log, log1p
from typing import Self

import numpy as np
from dp_accounting.rdp import rdp_privacy_accountant

from secureproto.privacy.accounting.tally import Part, Tally, tally
from secureproto.privacy.events import Composition, Gaussian

LEAST_ORDER = 1.02  # nearer to 1 the conversion to ε divides by next to nothing
# Dense where an ε of 0.5 to 50 has its best order, whole numbers above (a sum of as many terms), up to an ε of 0.004
ORDERS: tuple[float, ...] = (
    1.02,
    1.05,
    *(round(1 + step / 10, 1) for step in range(1, 40)),
    *(round(5 + step / 4, 2) for step in range(20)),
    *(float(order) for order in (*range(10, 20), *range(20, 40, 2), *range(40, 80, 4), *range(80, 160, 8))),
    *(float(order) for order in (160, 176, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024)),
)
# of one step: the sum's terms are of the size of 1, gammaln of 1024 is off by 1e-12, over an order less 1 of 1023
ROUNDING = 1e-14
KEPT = 1 << 17  # single costs that are kept: 1,000 mechanisms at every order, some 20 MB


def of_step(noise_multiplier: float, sample_rate: float, order: float) -> float:
    """RDP of one step at `order`, add/remove adjacency: never below the truth, infinite where it is not known."""
    if sample_rate == 1:
        return order / (2 * noise_multiplier**2)
    return _of_sampled(noise_multiplier, sample_rate, order)


@lru_cache(KEPT)
def _of_sampled(noise_multiplier: float, sample_rate: float, order: float) -> float:
    bounds = [_asked(noise_multiplier, sample_rate, order) + ROUNDING]
    bounds.append(order / (2 * noise_multiplier**2))  # sampling never makes a release dearer (joint quasi-convexity)
    if not order.is_integer():
        # the library's series adds up absolute values there, and need not converge; (α − 1)·RDP(α) is convex in α and
        # 0 at 1, so that a chord between whole orders lies above it too
        below, above = floor(order), ceil(order)
        low = (below - 1) * _of_sampled(noise_multiplier, sample_rate, float(below)) if below > 1 else 0.0
        high = (above - 1) * _of_sampled(noise_multiplier, sample_rate, float(above))
        bounds.append(((above - order) * low + (order - below) * high) / (order - 1))
    return min(bounds)


def _asked(noise_multiplier: float, sample_rate: float, order: float) -> float:
    try:
        with _quiet(), np.errstate(all="ignore"):
            found = rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(
                sample_rate, noise_multiplier, [order]
            )
    except OverflowError:  # noise far below any use
        return inf
    return inf if isnan(found[0]) else max(0.0, float(found[0]))


class _Silence(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return False


@contextmanager
def _quiet() -> Iterator[None]:
    """The library's warning of a series that does not converge is answered above; nobody else's log is touched."""
    logger, silence = logging.getLogger("absl"), _Silence()
    logger.addFilter(silence)
    try:
        yield
    finally:
        logger.removeFilter(silence)


def of_part(part: Part, order: float) -> float:
    """RDP of all steps of a part."""
    return part.count * of_step(part.noise_multiplier, part.sample_rate, order)


def rdp(spent: Tally, order: float) -> float:
    """RDP of everything at `order`; summed exactly, so that nothing depends on the order of the parts."""
    return inf if spent.unprotected else fsum(of_part(part, order) for part in spent.parts)


def surcharge(order: float, delta: float) -> float:
    """What the conversion adds to the RDP at `order` to make it an ε at δ (may be below 0 at small orders)."""
    return log1p(-1 / order) - (log(delta) + log(order)) / (order - 1)


def epsilon_at(spent: Tally, delta: float, order: float) -> float:
    """ε at δ by one order. Nothing spent costs 0, an unprotected release infinity."""
    if not spent.parts and not spent.unprotected:
        return 0.0
    return max(0.0, rdp(spent, order) + surcharge(order, delta))


@lru_cache(4096)
def epsilon(spent: Tally, delta: float) -> tuple[float, float]:
    """ε at δ by the best order, and that order: valid for a composition that was fixed beforehand."""
    return min((epsilon_at(spent, delta, order), order) for order in ORDERS)


@dataclass(frozen=True)
class Filter:
    """The gate of a budget: at most `max_epsilon` at `delta`, reckoned at `order` for ever.

    Raises:
        ValueError: an ε that is not a finite number over 0, a δ outside (0, 1), an order under LEAST_ORDER.
    """

    max_epsilon: float
    delta: float
    order: float

    def __post_init__(self) -> None:
        if not (isfinite(self.max_epsilon) and self.max_epsilon > 0):
            raise ValueError("max_epsilon is a finite number over 0")
        if not 0 < self.delta < 1:
            raise ValueError("delta is over 0 and under 1")
        if not (isfinite(self.order) and self.order >= LEAST_ORDER):
            raise ValueError(f"order is a finite number from {LEAST_ORDER} on")

    @classmethod
    def best(cls, max_epsilon: float, delta: float, plan: Composition = ()) -> Self:
        """The filter at the order at which `plan` uses the smallest share of the budget.

        Without a plan, or with one that costs nothing or everything at every order, Gaussian releases are reckoned
        with: DP-SGD of many steps comes near to them. The order depends on the budget alone then.
        """
        planned = tally(plan)
        if not planned.parts or planned.unprotected:
            planned = tally(((Gaussian(1.0), 1),))
        return cls(max_epsilon, delta, max(ORDERS, key=lambda order: _times(planned, max_epsilon, delta, order)))

    def epsilon(self, *spent: Composition) -> float:
        """ε of all that was spent, at this filter's order: what the gate compares."""
        return epsilon_at(tally(*spent), self.delta, self.order)

    def fits(self, spent: Composition, more: Composition = ()) -> bool:
        """Whether the budget still holds when `more` has been released too."""
        return self.admits(tally(spent, more))

    def admits(self, total: Tally) -> bool:
        """Whether the budget holds everything in `total`."""
        return epsilon_at(total, self.delta, self.order) <= self.max_epsilon


def _times(planned: Tally, max_epsilon: float, delta: float, order: float) -> float:
    """How often the plan goes into the budget at an order; at an order without budget, how far it is from one."""
    budget = max_epsilon - surcharge(order, delta)
    cost = rdp(planned, order)
    return budget / cost if budget > 0 and cost > 0 else min(budget, 0.0)
