"""For every composition: costs grow with events, fall with noise, know no order; the gate lets nothing over."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from secureproto.governance.forecast import remaining_rounds
from secureproto.governance.plan import events_of_rounds
from secureproto.privacy.accounting import pld, rdp
from secureproto.privacy.accounting.lower import lower_bound
from secureproto.privacy.accounting.rdp import Filter
from secureproto.privacy.accounting.tally import joined, tally
from secureproto.privacy.events import Gaussian, Mechanism, SampledGaussian, merge
from secureproto.study.privacy import PrivacySection

# few values, so that costs of single steps are kept and equal events meet
NOISE = st.sampled_from([0.4, 0.7, 1.0, 1.7, 4.0, 20.0, 1e3])
RATE = st.sampled_from([1e-3, 0.02, 0.3, 1.0])
PROTECTED = st.one_of(st.builds(Gaussian, NOISE), st.builds(SampledGaussian, NOISE, RATE, st.integers(1, 10_000)))
EVENTS: st.SearchStrategy[Mechanism] = PROTECTED
WEAK = st.sampled_from([1.0, 1.7, 4.0, 20.0])
MILD = st.one_of(st.builds(Gaussian, WEAK), st.builds(SampledGaussian, WEAK, RATE, st.integers(1, 300)))
MANY = st.lists(EVENTS, max_size=8)
DELTAS = st.sampled_from([1e-9, 1e-5, 1e-3, 0.1])
ORDERS = st.sampled_from([1.05, 1.3, 2.0, 2.4, 5.25, 12.0, 64.0, 256.0])
CAPS = st.floats(0.05, 1e3)
FREE = settings(deadline=None, max_examples=60)  # the first use of a step costs what none after it does


@FREE
@given(MANY, EVENTS, DELTAS, ORDERS)
def test_more_events_are_never_cheaper(events: list[Mechanism], more: Mechanism, delta: float, order: float) -> None:
    fewer, all_ = tally(merge(events)), tally(merge([*events, more]))
    assert rdp.rdp(fewer, order) < rdp.rdp(all_, order)
    assert rdp.epsilon_at(fewer, delta, order) <= rdp.epsilon_at(all_, delta, order)


@FREE
@given(PROTECTED, MANY, DELTAS, st.integers(2, 300), st.floats(1.0, 10.0))
def test_more_noise_is_never_dearer(
    event: Gaussian | SampledGaussian, others: list[Mechanism], delta: float, order: int, times: float
) -> None:
    noisier = replace(event, noise_multiplier=event.noise_multiplier * times)
    before, after = tally(merge([event, *others])), tally(merge([noisier, *others]))
    # whole orders are exact to rounding; of fractions the library's series is a bound that need not follow
    at = float(order)
    assert rdp.epsilon_at(after, delta, at) <= rdp.epsilon_at(before, delta, at) * (1 + 1e-9) + 1e-9


@FREE
@given(MANY, st.data(), DELTAS)
def test_neither_order_nor_cuts_count(events: list[Mechanism], data: st.DataObject, delta: float) -> None:
    shuffled = data.draw(st.permutations(events))
    half = len(events) // 2
    total = tally(merge(events))
    assert total == tally(merge(shuffled)) == joined(tally(merge(events[:half])), tally(merge(events[half:])))
    assert rdp.epsilon(total, delta) == rdp.epsilon(tally(merge(shuffled)), delta)


@FREE
@given(MANY, MANY, CAPS, DELTAS, MANY)
def test_the_gate_lets_nothing_over_its_cap(
    spent: list[Mechanism], more: list[Mechanism], cap: float, delta: float, plan: list[Mechanism]
) -> None:
    gate = Filter.best(cap, delta, merge(plan))
    assert gate.fits(merge(spent), merge(more)) == (gate.epsilon(merge([*spent, *more])) <= cap)
    if gate.fits(merge(spent), merge(more)):
        assert gate.fits(merge(spent))
        assert lower_bound(tally(merge([*spent, *more])), delta) <= cap * (1 + 1e-9)


@settings(FREE, max_examples=12)
@given(st.lists(MILD, min_size=1, max_size=3), DELTAS)
def test_pld_lies_between_the_bound_and_rdp(events: list[Mechanism], delta: float) -> None:
    total = tally(merge(events))
    found = pld.figure(total, delta)
    if found is not None:
        assert lower_bound(total, delta) * (1 - 1e-5) <= found.epsilon <= rdp.epsilon(total, delta)[0]


@FREE
@given(
    noises=st.tuples(NOISE, NOISE),
    every=st.integers(1, 12),
    next_round=st.integers(0, 40),
    spent=MANY,
    cap=st.floats(0.5, 60.0),
)
def test_remaining_rounds_fit_and_one_more_does_not(
    noises: tuple[float, float], every: int, next_round: int, spent: list[Mechanism], cap: float
) -> None:
    section = PrivacySection.model_validate(
        {
            "max_epsilon_study": cap,
            "max_delta": 1e-5,
            "training": {
                "noise_multiplier": noises[0], "max_grad_norm": 1.0, "sample_rate": 0.3, "steps": 7,
                "expected_batch": 8.0, "learning_rate": 0.1,
            },
            "prototypes": {"noise_multiplier": noises[1], "release_every": every},
        }
    )  # fmt: skip
    gate, before = Filter.best(cap, 1e-5), merge(spent)
    count = remaining_rounds(section, gate, spent=before, next_round=next_round)
    if count:
        assert gate.fits(before, events_of_rounds(section, next_round, count))
    if count < 1_000_000:
        assert not gate.fits(before, events_of_rounds(section, next_round, count + 1))
