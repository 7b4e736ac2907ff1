"""Claims: one text for one composition, and nothing else is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from secureproto.errors import Rejected
from secureproto.privacy.events import Gaussian, Mechanism, SampledGaussian, Unprotected, merge
from secureproto.privacy.ledger.claims import (
    MAX_TIMES,
    Claim,
    Release,
    composition,
    join,
    number,
    number_text,
    releases,
)
from support.ledgers import claim

NOISE = st.floats(min_value=1e-300, max_value=1e300)
MECHANISMS: st.SearchStrategy[Mechanism] = st.one_of(
    st.just(Unprotected()),
    st.builds(Gaussian, NOISE),
    st.builds(SampledGaussian, NOISE, st.floats(1e-12, 1), st.integers(1, 1000)),
)


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_every_double_has_one_text(value: float) -> None:
    assert number(number_text(value)) == value


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.00", "+1.0", " 1.0", "1.0\n", "1_0.0", "01.0", "1e0", "0.00001", "1E-05", "nan", "inf", "1e+400",
     "-1.0", "0.1000000000000000055511151231257827", "١.0", "0x1p0", ".5"],
)  # fmt: skip
def test_no_other_text_is_a_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"not the shortest decimal"):
        number(text)


@given(st.lists(MECHANISMS, min_size=1, max_size=8))
def test_the_text_of_a_composition_forgets_order_and_nothing_else(events: list[Mechanism]) -> None:
    said = releases(merge(events))
    assert composition(said) == merge(events)
    assert releases(merge(reversed(events))) == said
    one = claim(events=events)
    assert Claim.parse(one.canonical()) == one
    assert one.composition == merge(events)


@given(st.lists(st.lists(MECHANISMS, max_size=4), max_size=4))
def test_joining_is_merging_all_of_it(parts: list[list[Mechanism]]) -> None:
    assert join(merge(part) for part in parts) == merge(event for part in parts for event in part)


def test_joining_adds_up() -> None:
    one, two = (
        merge([Gaussian(2.0), SampledGaussian(1.0, 0.5, 3)]),
        merge([Gaussian(2.0), SampledGaussian(1.0, 0.5, 4)]),
    )
    assert join([one, two]) == ((Gaussian(2.0), 2), (SampledGaussian(1.0, 0.5, 7), 1))
    assert join([]) == ()


@pytest.mark.parametrize(
    "said",
    [
        {"mechanism": "gaussian"},
        {"mechanism": "gaussian", "noise_multiplier": "0.0"},
        {"mechanism": "gaussian", "noise_multiplier": "4"},
        {"mechanism": "gaussian", "noise_multiplier": "4.0", "steps": 1},
        {"mechanism": "gaussian", "noise_multiplier": "4.0", "sample_rate": "0.5"},
        {"mechanism": "unprotected", "noise_multiplier": "4.0"},
        {"mechanism": "sampled_gaussian", "noise_multiplier": "4.0", "sample_rate": "1.5", "steps": 1},
        {"mechanism": "sampled_gaussian", "noise_multiplier": "4.0", "sample_rate": "0.5", "steps": 0},
        {"mechanism": "gaussian", "noise_multiplier": "4.0", "times": 0},
        {"mechanism": "gaussian", "noise_multiplier": "4.0", "times": MAX_TIMES + 1},
        {"mechanism": "laplace", "noise_multiplier": "4.0"},
    ],
)
def test_a_release_that_no_mechanism_has_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Release(**said)  # type: ignore[arg-type]


def test_a_claim_in_another_form_is_refused() -> None:
    one = claim(events=[Gaussian(4.0), Gaussian(2.0)])
    data = one.canonical().replace(b'"noise_multiplier":"2.0"', b'"noise_multiplier":"5.0"')
    with pytest.raises(Rejected):
        Claim.parse(data)  # 5.0 stands before 4.0
    with pytest.raises(ValidationError):
        claim(events=[])


def test_more_of_one_event_than_a_reader_unfolds_is_refused() -> None:
    with pytest.raises(ValueError, match="over 10000"):
        releases(((Gaussian(1.0), MAX_TIMES + 1),))
