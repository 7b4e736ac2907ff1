"""Plans: the events of rounds, the noise that keeps a budget, and what parts cost."""

from dataclasses import replace
from itertools import chain
from math import inf, nan

import pytest

from secureproto.errors import BudgetExhausted
from secureproto.governance.plan import Wish, calibrate, events_of_round, events_of_rounds, plan_of
from secureproto.privacy.accounting.gaussian import epsilon_of
from secureproto.privacy.accounting.rdp import ORDERS, Filter, rdp, surcharge
from secureproto.privacy.accounting.tally import tally
from secureproto.privacy.events import MAX_STEPS, Gaussian, SampledGaussian, Unprotected, merge
from secureproto.study.privacy import PrivacySection

WISH = Wish(epsilon=8.0, delta=1e-5, rounds=100, sample_rate=0.02, steps=50)


def section(release_every: int = 5, steps: int | None = 50) -> PrivacySection:
    training = {
        "noise_multiplier": 1.0, "max_grad_norm": 1.0, "sample_rate": 0.02, "steps": steps, "expected_batch": 8.0,
        "learning_rate": 0.1,
    }  # fmt: skip
    return PrivacySection.model_validate(
        {
            "max_epsilon_study": 20.0,
            "max_delta": 1e-5,
            "training": training if steps else None,
            "prototypes": {"noise_multiplier": 4.0, "release_every": release_every},
        }
    )


@pytest.mark.parametrize("steps", [50, None])
@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 1), (3, 1), (5, 1), (3, 12), (0, 23), (7, 3)])
def test_many_rounds_are_each_of_them(first: int, count: int, steps: int | None) -> None:
    study = section(steps=steps)
    one_by_one = chain.from_iterable(events_of_round(study, number) for number in range(first, first + count))
    assert events_of_rounds(study, first, count) == merge(one_by_one)


def test_a_round_is_what_the_section_says() -> None:
    assert events_of_round(section(), 4) == (SampledGaussian(1.0, 0.02, 50),)
    assert events_of_round(section(), 5) == (SampledGaussian(1.0, 0.02, 50), Gaussian(4.0))
    assert events_of_round(section(steps=None), 0) == (Unprotected(), Gaussian(4.0))


def test_steps_beyond_one_event_are_several() -> None:
    found = events_of_rounds(section(steps=1_000_000), 0, 2_500)
    assert dict(found) == {
        Gaussian(4.0): 500,
        SampledGaussian(1.0, 0.02, MAX_STEPS): 2,
        SampledGaussian(1.0, 0.02, MAX_STEPS // 2): 1,
    }


def test_the_plan_fits_and_with_less_noise_it_does_not() -> None:
    plan = calibrate(WISH)
    training, prototypes = plan.part("training").noise_multiplier, plan.part("prototypes").noise_multiplier
    assert training is not None
    assert prototypes is not None
    assert plan.gate.fits(WISH.training(training), WISH.prototypes(prototypes))
    assert not plan.gate.fits(WISH.training(training * 0.999), WISH.prototypes(prototypes * 0.999))
    assert plan.total.filter_epsilon == pytest.approx(8.0, rel=1e-4)
    assert plan.total.epsilon < 8.0
    # the order that a filter of this plan has by itself lets it through too
    whole = (*WISH.training(training), *WISH.prototypes(prototypes))
    assert Filter.best(8.0, 1e-5, whole).fits(whole)


def test_no_other_order_does_with_less_training_noise() -> None:
    plan = calibrate(WISH)
    noise = plan.part("training").noise_multiplier
    assert noise is not None
    spent = tally(WISH.training(noise * 0.999))
    for order in ORDERS:
        assert rdp(spent, order) > 0.8 * (8.0 - surcharge(order, 1e-5))


def test_shares_are_of_mu_squared() -> None:
    plan = calibrate(replace(WISH, share_prototypes=0.3, metrics_every=10))
    assert sum(part.share for part in plan.parts) == pytest.approx(1.0)
    assert plan.part("prototypes").share == pytest.approx(0.3, abs=1e-4)
    metrics = plan.part("metrics")
    assert metrics.releases == 10
    assert metrics.alone.epsilon == pytest.approx(1.76, rel=1e-3)  # PRIVACY.md: std 10, every 10th of 100 rounds
    assert plan.part("prototypes").releases == 20
    assert plan.part("training").releases == 5000
    with pytest.raises(KeyError):
        plan.part("time")


def test_metrics_of_every_round_cost_what_the_table_says() -> None:
    wish = replace(WISH, epsilon=16.0)
    plan, plain = calibrate(replace(wish, metrics_every=1)), calibrate(wish)
    assert plan.part("metrics").alone.epsilon == pytest.approx(6.57, rel=1e-3)
    assert (plan.part("training").noise_multiplier or 0) > (plain.part("training").noise_multiplier or inf)


def test_parts_alone_are_closed_forms_where_there_is_one() -> None:
    part = calibrate(WISH).part("prototypes")
    assert part.noise_multiplier is not None
    assert part.alone.epsilon == pytest.approx(epsilon_of(part.noise_multiplier, 1e-5, 20), rel=1e-6)


@pytest.mark.parametrize(
    "wish",
    [
        replace(WISH, epsilon=0.001),  # no order has a budget
        replace(WISH, epsilon=1.0, rounds=1000, metrics_every=1),  # metrics alone cost more
        replace(WISH, epsilon=0.01, delta=1e-300),
        replace(WISH, rounds=1_000_000, steps=1_000_000, sample_rate=1.0, epsilon=0.01),
    ],
)
def test_a_plan_that_can_never_fit(wish: Wish) -> None:
    with pytest.raises(BudgetExhausted, match="no noise keeps epsilon") as caught:
        calibrate(wish)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": nan}, {"epsilon": 0.0}, {"epsilon": inf}, {"delta": 0.0}, {"delta": 1.0}, {"delta": nan},
        {"rounds": 0}, {"steps": 0}, {"sample_rate": 0.0}, {"sample_rate": 1.1}, {"sample_rate": nan},
        {"release_every": 0}, {"metrics_every": -1}, {"share_prototypes": 0.0}, {"share_prototypes": 1.0},
        {"share_prototypes": nan},
    ],
)  # fmt: skip
def test_a_wish_outside_its_domain(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"over 0|or more|steps are"):
        replace(WISH, **change)  # type: ignore[arg-type]


def test_a_budget_that_hardly_binds() -> None:
    plan = calibrate(Wish(epsilon=1e4, delta=0.5, rounds=1, sample_rate=1.0, steps=1))
    assert plan.total.filter_epsilon <= 1e4


def test_a_study_is_judged_as_it_stands() -> None:
    plan = plan_of(section(release_every=1), 100)
    assert plan.total.epsilon == pytest.approx(17.5455, rel=3e-4)
    assert plan.total.rdp_epsilon == pytest.approx(18.777, rel=3e-4)
    assert [part.alone.epsilon for part in plan.parts] == pytest.approx([9.403, 13.2067], rel=3e-4)
    open_ = plan_of(section(steps=None), 100)
    assert open_.total.epsilon == inf
    assert [(part.noise_multiplier, part.share) for part in open_.parts] == [(None, 1.0), (4.0, 0.0)]
