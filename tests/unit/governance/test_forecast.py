"""Forecasts: exact to the round, with rounds that cost differently."""

import pytest

from secureproto.governance import forecast as module
from secureproto.governance.forecast import MAX_ROUNDS, Forecast, forecast, last_that_holds, remaining_rounds
from secureproto.governance.plan import events_of_rounds
from secureproto.privacy.accounting.rdp import Filter
from secureproto.privacy.events import Composition, Gaussian, Unprotected, merge
from secureproto.study.privacy import PrivacySection

SECTION = PrivacySection.model_validate(
    {
        "max_epsilon_study": 8.0,
        "max_delta": 1e-5,
        "training": {
            "noise_multiplier": 1.2, "max_grad_norm": 1.0, "sample_rate": 0.05, "steps": 20, "expected_batch": 8.0,
            "learning_rate": 0.1,
        },
        "prototypes": {"noise_multiplier": 2.0, "release_every": 5},
    }
)  # fmt: skip
GATE = Filter.best(8.0, 1e-5)


def slowly(gate: Filter, spent: Composition, next_round: int) -> int:
    """Round by round."""
    count = 0
    while gate.fits(spent, events_of_rounds(SECTION, next_round, count + 1)):
        count += 1
    return count


@pytest.mark.parametrize("next_round", [0, 1, 4, 5, 13])
@pytest.mark.parametrize("spent", [(), ((Gaussian(1.0), 1),), merge([Gaussian(0.9), Gaussian(2.5)])])
def test_remaining_is_exact(spent: Composition, next_round: int) -> None:
    found = forecast(SECTION, GATE, spent=spent, next_round=next_round)
    assert found.remaining == slowly(GATE, spent, next_round) == remaining_rounds(
        SECTION, GATE, spent=spent, next_round=next_round
    )  # fmt: skip
    assert found.affordable == slowly(GATE, (), 0)


def test_rounds_without_a_release_come_first_when_they_are_next() -> None:
    nearly = Filter.best(8.0, 1e-5)
    spent = events_of_rounds(SECTION, 0, 1)
    while nearly.fits(spent, events_of_rounds(SECTION, 0, 1)):
        spent = (*spent, *events_of_rounds(SECTION, 1, 1))
    assert forecast(SECTION, nearly, spent=spent, next_round=5).remaining == 0
    assert forecast(SECTION, nearly, spent=spent, next_round=1).remaining > 0


def test_spending_by_rounds_counts_down() -> None:
    whole = forecast(SECTION, GATE, spent=(), next_round=0)
    assert whole.remaining == whole.affordable > 10
    assert whole.spent_ratio == 0.0
    for done in (1, 7, whole.affordable):
        later = forecast(SECTION, GATE, spent=events_of_rounds(SECTION, 0, done), next_round=done)
        assert later.remaining == whole.affordable - done
        assert later.spent_ratio == pytest.approx(done / whole.affordable)


def test_an_unprotected_release_leaves_nothing() -> None:
    found = forecast(SECTION, GATE, spent=((Unprotected(), 1),), next_round=0)
    assert (found.remaining, found.spent_ratio) == (0, 1.0)


def test_a_budget_that_no_round_fits_is_spent() -> None:
    assert forecast(SECTION, Filter.best(0.5, 1e-5), spent=(), next_round=0) == Forecast(0, 0)
    assert Forecast(0, 0).spent_ratio == 1.0
    assert Forecast(4, 3).spent_ratio == 0.0


def test_a_forecast_ends_somewhere() -> None:
    generous = SECTION.model_copy(
        update={
            "training": SECTION.training and SECTION.training.model_copy(update={"noise_multiplier": 1e6}),
            "prototypes": SECTION.prototypes.model_copy(update={"noise_multiplier": 1e6}),
        }
    )
    assert forecast(generous, GATE, spent=(), next_round=0).remaining == MAX_ROUNDS


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 100])
def test_the_last_that_holds(most: int) -> None:
    for last in range(most + 1):
        assert last_that_holds(range(last + 1).__contains__, most) == last
    assert last_that_holds(lambda count: True, most) == most


def test_a_multiset_of_events_is_reckoned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [Gaussian(3.0), Gaussian(4.0), Gaussian(3.0)]
    first = forecast(SECTION, GATE, spent=merge(events), next_round=2)
    monkeypatch.setattr(module, "last_that_holds", None)
    again: Composition = ((Gaussian(4.0), 1), (Gaussian(3.0), 2))
    assert forecast(SECTION, GATE, spent=again, next_round=7) == first
