"""What stands beside an ε."""

import json
from math import exp, inf

import pytest

from secureproto.privacy.accounting.quote import factor, quote
from secureproto.privacy.accounting.rdp import Filter
from secureproto.privacy.events import Gaussian, Unprotected, merge

GATE = Filter(20.0, 1e-5, 2.4)
SPENT = merge([Gaussian(4.0)] * 100)


def test_a_declared_plan_has_both_figures() -> None:
    found = quote(SPENT, GATE, declared=True, records=9_000)
    assert found.epsilon == found.pld_epsilon == pytest.approx(13.2067, rel=3e-4)
    assert found.method == "PLD, discretisation 0.001"
    assert found.rdp_epsilon == pytest.approx(14.132, rel=3e-4)
    assert found.filter_epsilon == GATE.epsilon(SPENT) >= found.rdp_epsilon
    assert (found.unit, found.adjacency, found.sampling, found.delta) == ("record", "add_remove", "poisson", 1e-5)
    assert found.accountant.startswith("dp-accounting 0.")
    assert found.n_delta == pytest.approx(0.09)
    assert not found.red


def test_spending_that_was_not_declared_has_the_filters_figure() -> None:
    found = quote(SPENT, GATE, declared=False)
    assert found.pld_epsilon is None
    assert found.epsilon == found.filter_epsilon
    assert found.method == "RDP filter, order 2.4"


def test_without_pld_the_figure_is_that_of_rdp() -> None:
    found = quote(merge([Gaussian(0.001)]), GATE, declared=True)
    assert found.pld_epsilon is None
    assert found.epsilon == found.rdp_epsilon > 5e5
    assert found.method.startswith("RDP, best order")


def test_delta_is_red_beyond_a_tenth_of_one_over_n() -> None:
    assert not quote(SPENT, GATE, declared=False, records=10_000).red
    assert quote(SPENT, GATE, declared=False, records=10_001).red
    assert not quote(SPENT, GATE, declared=False).red


def test_words() -> None:
    assert quote(SPENT, GATE, declared=True).words == (
        "one record's data changes the odds of any outcome by at most a factor of 544,000, "
        "except with probability 1e-05"
    )
    assert quote((), GATE, declared=False).words.startswith(
        "one record's data changes the odds of any outcome by at most a factor of 1,"
    )


def test_an_unprotected_release_promises_nothing() -> None:
    found = quote(merge([Unprotected()]), GATE, declared=True)
    assert found.epsilon == inf
    assert found.red
    assert found.words.startswith("no promise")
    text = json.dumps(found.as_json(), allow_nan=False)
    assert json.loads(text)["epsilon"] == "infinite"


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [(0.0, "1"), (0.1, "1.11"), (1.0, "2.72"), (5.0, "148"), (8.0, "2,980"), (13.0, "442,000"), (20.0, "10^8.7"),
     (1628.7, "10^707"), (inf, "infinity")],
)  # fmt: skip
def test_a_factor_in_words(epsilon: float, text: str) -> None:
    assert factor(epsilon) == text
    if epsilon < 13:
        assert float(text.replace(",", "")) == pytest.approx(exp(epsilon), rel=5e-3)
