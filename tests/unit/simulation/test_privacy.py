"""What a private simulation says of its price, and what it does not begin."""

import pytest

from secureproto.errors import BudgetExhausted
from secureproto.governance.plan import events_of_rounds, plan_of
from secureproto.simulation.privacy import prices
from support.learning import tabular_study
from support.private_study import private_study


def test_nothing_is_said_without_privacy() -> None:
    assert prices(["local", "protoaligned"], tabular_study(), 100) == []


def test_each_private_method_has_its_price_and_the_others_are_named() -> None:
    study = private_study(noise=2.0, prototype_noise=8.0)
    assert study.privacy is not None
    first, second, last = prices(
        ["local", "protoaligned", "protoaligned:epsilon=1", "protoaligned:privacy=off"], study, 100
    )
    cost = plan_of(study.privacy, study.rounds.total).total
    assert first.startswith(f"privacy: protoaligned: epsilon {cost.pld_epsilon:.3g} by PLD, discretisation 0.0")
    assert f"{cost.filter_epsilon:.3g} by the gate (RDP at order " in first
    assert "delta 1e-05, per record, add_remove, poisson sampling: one record's data changes" in first
    assert "1 by the gate" in second
    assert "at most 1)" in second
    assert last == "privacy: none, run without it: local, protoaligned:privacy=off"


def test_training_without_protection_has_no_finite_price() -> None:
    (line,) = prices(["protoaligned"], private_study(privacy={"training": None}), 100)
    assert line.endswith("epsilon is infinite")


def test_what_costs_more_than_the_study_allows_is_not_begun() -> None:
    study = private_study(privacy={"max_epsilon_study": 40.0})
    assert study.privacy is not None
    with pytest.raises(BudgetExhausted) as caught:
        prices(["protoaligned"], study, 100)
    assert caught.value.exit_code == 5
    fit = int(caught.value.hint.split()[0])
    gate = plan_of(study.privacy, study.rounds.total).gate
    assert gate.fits(events_of_rounds(study.privacy, 0, fit))
    assert not gate.fits(events_of_rounds(study.privacy, 0, fit + 1))


def test_a_delta_that_the_largest_site_is_too_large_for_is_said() -> None:
    study = private_study(noise=2.0, prototype_noise=8.0)
    for records, too_large in ((10_000, False), (10_001, True)):
        (line,) = prices(["protoaligned"], study, records)
        assert ("at the largest site, over 0.1" in line) == too_large
