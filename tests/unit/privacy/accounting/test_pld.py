"""PLD: the reference figures, refinement, the guard, and the alarm."""

from math import inf, sqrt

import pytest

from secureproto.errors import IntegrityBroken
from secureproto.privacy.accounting import pld, rdp
from secureproto.privacy.accounting.gaussian import epsilon_of
from secureproto.privacy.accounting.lower import lower_bound
from secureproto.privacy.accounting.tally import tally
from secureproto.privacy.events import Gaussian, Mechanism, SampledGaussian, Unprotected, merge

DELTA = 1e-5
SGD = SampledGaussian(1.0, 0.02, 5000)
REFERENCES: list[tuple[list[Mechanism], float, float]] = [
    ([SGD, *[Gaussian(4.0)] * 100], 17.5455, 1e-3),
    ([SGD], 9.403, 1e-3),
    ([Gaussian(4.0)] * 100, 13.2067, 1e-3),
    ([SampledGaussian(0.5, 0.5, 2000)], 1628.7, 1e-3),
    ([SampledGaussian(1.0, 0.02, 200_000)], 115.09, 1e-3),
    ([SampledGaussian(8.0, 0.002, 20_000)], 0.111795, 1e-4),  # at 1e-3: 0.2065, over RDP's 0.1256
]


@pytest.mark.parametrize(("events", "epsilon", "interval"), REFERENCES)
def test_reference_figures(events: list[Mechanism], epsilon: float, interval: float) -> None:
    total = tally(merge(events))
    found = pld.figure(total, DELTA)
    assert found is not None
    assert found.epsilon == pytest.approx(epsilon, rel=3e-4)
    assert found.interval == interval
    assert lower_bound(total, DELTA) <= found.epsilon <= rdp.epsilon(total, DELTA)[0]


def test_the_smallest_reference_figure() -> None:
    found = pld.figure(tally(merge([SampledGaussian(8.0, 0.001, 10)])), DELTA)
    assert found is not None
    assert found.epsilon == pytest.approx(0.0020, abs=5e-5)


def test_too_coarse_a_figure_is_over_that_of_rdp() -> None:
    parts = tally(merge([SampledGaussian(8.0, 0.002, 20_000)])).parts
    assert pld._epsilon(parts, DELTA, 1e-3) == pytest.approx(0.2065, rel=3e-4)


def test_gaussians_of_several_noises_are_one() -> None:
    total = tally(merge([Gaussian(3.0), Gaussian(4.0), *[Gaussian(12.0)] * 9]))
    found = pld.figure(total, DELTA)
    assert found is not None
    assert found.epsilon == pytest.approx(epsilon_of(1 / sqrt(1 / 9 + 1 / 16 + 1 / 16), DELTA), rel=1e-6)


def test_many_steps_of_little_loss_do_not_hang() -> None:
    found = pld.figure(tally(merge([SampledGaussian(1000.0, 0.1, 2 * 10**5 - 1)])), 1e-3)
    assert found is not None
    assert found.epsilon == pytest.approx(0.080444, rel=1e-4)


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (SampledGaussian(1e-6, 0.5, 10**9), 1e-5),  # a loss of 10^20
        (SampledGaussian(100.0, 0.01, 10**9), 1e-5),  # 20 million bins at 1e-3
        (SampledGaussian(1e-160, 0.5, 1), 1e-5),
        (SampledGaussian(1.0, 0.02, 200_000), 1e-10),  # rounding of as much as δ
        (Unprotected(), 1e-5),
    ],
)
def test_no_figure_where_it_would_cost_too_much_or_mean_nothing(event: Mechanism, delta: float) -> None:
    assert pld.figure(tally(merge([event])), delta) is None


def test_nothing_released_costs_nothing() -> None:
    found = pld.figure(tally(), DELTA)
    assert found is not None
    assert found.epsilon == 0.0


def test_a_figure_that_is_never_under_rdp_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def too_high(parts: object, delta: float, interval: float) -> float:
        seen.append(interval)
        return 1e3

    monkeypatch.setattr(pld, "_epsilon", too_high)
    assert pld.figure(tally(merge([SampledGaussian(1.0, 0.021, 10)])), DELTA) is None
    assert seen == [1e-3, 1e-4, 1e-5]


@pytest.mark.parametrize("event", [Gaussian(1.7), SampledGaussian(1.7, 0.5, 100)])
def test_a_figure_below_the_bound_is_an_alarm(event: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    total = tally(merge([event]))
    low = lower_bound(total, DELTA) * 0.999
    monkeypatch.setattr(pld, "_epsilon", lambda parts, delta, interval: low)
    with pytest.raises(IntegrityBroken, match="states less than a plain test achieves"):
        pld.figure(total, DELTA)


def test_half_the_noise_is_seen_by_the_bound() -> None:
    for event, halved in (
        (SampledGaussian(2.0, 0.1, 1000), SampledGaussian(1.0, 0.1, 1000)),
        (Gaussian(2.0), Gaussian(1.0)),
    ):
        stated = pld.figure(tally(merge([event])), DELTA)
        assert stated is not None
        assert lower_bound(tally(merge([halved])), DELTA) > stated.epsilon


def test_the_bound_is_the_closed_form_for_gaussians_and_holds_for_mixtures() -> None:
    assert lower_bound(tally(merge([Gaussian(4.0)] * 100)), DELTA) == epsilon_of(4.0, DELTA, 100)
    alone = lower_bound(tally(merge([SGD])), DELTA)
    both = lower_bound(tally(merge([SGD, *[Gaussian(4.0)] * 100])), DELTA)
    assert 0 < alone < epsilon_of(4.0, DELTA, 100) < both
    assert lower_bound(tally(merge([Unprotected()])), DELTA) == inf
    assert lower_bound(tally(), DELTA) == 0.0


@pytest.mark.parametrize("event", [SampledGaussian(8.0, 0.01, 20_000), SampledGaussian(100.0, 0.01, 10**9)])
def test_the_bound_is_near_where_noise_is_large(event: SampledGaussian) -> None:
    """Of 10^9 steps the participations are binned; both are near the truth of a Gaussian with μ = q√n/σ."""
    near = epsilon_of(event.noise_multiplier / event.sample_rate, DELTA, event.steps)
    assert lower_bound(tally(merge([event])), DELTA) == pytest.approx(near, rel=0.02)
