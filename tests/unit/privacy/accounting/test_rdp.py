"""RDP and the gate: the reference figures, the library checked by the sum written out, and what a filter refuses."""

import logging
from math import exp, expm1, inf, lgamma, log, log1p, nan

import numpy as np
import pytest

from secureproto.privacy.accounting import rdp
from secureproto.privacy.accounting.rdp import ORDERS, Filter, epsilon, epsilon_at, of_step
from secureproto.privacy.accounting.tally import tally
from secureproto.privacy.events import Composition, Gaussian, Mechanism, SampledGaussian, Unprotected, merge

PLAN = merge([SampledGaussian(1.0, 0.02, 5000), *[Gaussian(4.0)] * 100])


def written_out(noise: float, rate: float, order: int) -> float:
    """Mironov et al. 2019, section 3.3, for a whole order, without the terms that cancel: exact for tiny costs."""
    total = 0.0
    for i in range(2, order + 1):
        choose = lgamma(order + 1) - lgamma(i + 1) - lgamma(order - i + 1)
        total += exp(choose + i * log(rate) + (order - i) * log1p(-rate)) * expm1((i * i - i) / (2 * noise**2))
    return log1p(total) / (order - 1)


def by_quadrature(noise: float, rate: float, order: float) -> float:
    """The integral itself, for any order."""
    x = np.linspace(-14 * noise, order + 14 * noise, 400_001)
    density = -(x**2) / (2 * noise**2) - np.log(noise * np.sqrt(2 * np.pi))
    ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + (2 * x - 1) / (2 * noise**2))
    return float(np.log(np.sum(np.exp(density + order * ratio)) * (x[1] - x[0])) / (order - 1))


def test_the_reference_plan() -> None:
    assert epsilon(tally(PLAN), 1e-5)[0] == pytest.approx(18.777, rel=3e-4)


def test_no_alarm_in_the_log_and_no_gap_where_the_series_does_not_converge(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        rdp._of_sampled.cache_clear()
        found = [of_step(0.5, 0.5, order) for order in (1.1, 1.5, 2.5)]
    assert not caplog.records
    assert found == sorted(found)
    assert found[-1] < of_step(0.5, 0.5, 3.0)
    assert not logging.getLogger("absl").filters


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.02), (8.0, 0.002), (0.6, 0.3), (50.0, 1e-4), (1e5, 1e-5)])
def test_a_step_is_never_cheaper_than_the_sum_written_out(noise: float, rate: float) -> None:
    for order in (2, 3, 11, 64, 256):
        truth = written_out(noise, rate, order) if order * order < 700 * noise**2 else 0.0
        assert truth <= of_step(noise, rate, float(order)) * (1 + 1e-9)
        if truth:
            assert of_step(noise, rate, float(order)) <= truth * (1 + 1e-6) + 2 * rdp.ROUNDING


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.02), (5.1, 0.5), (0.5, 0.5), (0.7, 0.9)])
def test_a_fraction_is_over_the_integral_and_not_far(noise: float, rate: float) -> None:
    for order, far in ((2.4, 1.2), (4.25, 1.03), (8.5, 1.005)):
        truth = by_quadrature(noise, rate, order)
        assert truth * (1 - 1e-9) <= of_step(noise, rate, order) <= truth * far


def test_gaussians_need_no_library() -> None:
    assert epsilon_at(tally(merge([Gaussian(2.0)] * 8)), 1e-5, 5.0) == pytest.approx(5.0 + rdp.surcharge(5.0, 1e-5))
    assert of_step(2.0, 1.0, 5.0) == 0.625


def test_noise_far_below_any_use_is_dear_and_not_a_number_short() -> None:
    assert inf > epsilon(tally(merge([SampledGaussian(1e-9, 0.5, 10)])), 1e-5)[0] > 1e17
    for event in (SampledGaussian(1e-160, 0.5, 10), Gaussian(1e-300)):
        assert epsilon(tally(merge([event])), 1e-5)[0] == inf


def test_nothing_costs_nothing_and_the_unprotected_everything() -> None:
    assert epsilon(tally(), 1e-5)[0] == 0.0
    assert epsilon(tally(merge([Unprotected(), Gaussian(1.0)])), 1e-5)[0] == inf
    gate = Filter.best(1e4, 1e-5)
    assert gate.fits(()) is True
    assert gate.fits((), merge([Unprotected()])) is False
    assert gate.epsilon(merge([Unprotected()])) == inf


def test_the_gate_counts_at_its_own_order() -> None:
    gate = Filter(20.0, 1e-5, 2.4)
    assert gate.epsilon(PLAN) == pytest.approx(18.777, rel=3e-4)
    assert Filter(20.0, 1e-5, 2.0).epsilon(PLAN) > gate.epsilon(PLAN)
    assert gate.fits(PLAN)
    assert not gate.fits(PLAN, PLAN)
    assert gate.epsilon(PLAN, PLAN) == gate.epsilon((*PLAN, *PLAN))


def test_the_best_order_is_where_most_of_the_plan_fits() -> None:
    def times(gate: Filter) -> int:
        count = 0
        while gate.fits(tuple((event, times * (count + 1)) for event, times in PLAN)):
            count += 1
        return count

    chosen = Filter.best(200.0, 1e-5, PLAN)
    assert times(chosen) == max(times(Filter(200.0, 1e-5, order)) for order in ORDERS)
    assert times(chosen) > times(Filter(200.0, 1e-5, 4.0))


@pytest.mark.parametrize(("cap", "delta"), [(0.1, 1e-5), (1.0, 1e-3), (8.0, 1e-5), (1000.0, 1e-9)])
def test_without_a_plan_the_order_suits_gaussians(cap: float, delta: float) -> None:
    gate = Filter.best(cap, delta)
    assert (
        gate == Filter.best(cap, delta, merge([Gaussian(7.0)] * 3)) == Filter.best(cap, delta, ((Unprotected(), 1),))
    )
    noise = next(n for n in np.geomspace(0.01, 100, 2000) if gate.fits(((Gaussian(float(n)), 1),)))
    assert not any(Filter(cap, delta, order).fits(((Gaussian(float(noise) * 0.99), 1),)) for order in ORDERS)


@pytest.mark.parametrize(
    ("cap", "delta", "order"),
    [
        (0.0, 1e-5, 2.0), (-1.0, 1e-5, 2.0), (nan, 1e-5, 2.0), (inf, 1e-5, 2.0), (1.0, 0.0, 2.0), (1.0, 1.0, 2.0),
        (1.0, nan, 2.0), (1.0, 1e-5, 1.0), (1.0, 1e-5, nan), (1.0, 1e-5, inf),
    ],
)  # fmt: skip
def test_a_gate_is_not_made_of_anything(cap: float, delta: float, order: float) -> None:
    with pytest.raises(ValueError, match=r"is a finite number|is over 0"):
        Filter(cap, delta, order)


def test_a_tally_knows_no_order_and_no_cuts() -> None:
    events: list[Mechanism] = [
        SampledGaussian(1.0, 0.1, 3),
        Gaussian(2.0),
        SampledGaussian(1.0, 0.1, 4),
        Gaussian(2.0),
    ]
    cut: Composition = ((Gaussian(2.0), 1), (SampledGaussian(1.0, 0.1, 7), 1), (Gaussian(2.0), 1), (Gaussian(9.0), 0))
    assert tally(merge(events)) == tally(cut) == tally(merge(events[:2]), merge(events[2:]))
    assert tally(((SampledGaussian(2.0, 1.0, 5), 2),)) == tally(((Gaussian(2.0), 10),))
    assert tally(cut).steps == 9
