"""The procedure: caps, countersignatures, grants, clocks."""

import pytest

from secureproto.errors import ApprovalNeeded, BudgetExhausted, Conflict, IntegrityBroken, Misconfigured
from secureproto.privacy.events import Gaussian, SampledGaussian, Unprotected
from secureproto.privacy.ledger.charging import Caps, Charging, Grant, Moment, require_at_least
from secureproto.privacy.ledger.claims import Kind
from secureproto.privacy.ledger.entries import Cause, Countersignable, Reserved, Subject
from secureproto.privacy.ledger.memory import MemoryLedger
from secureproto.privacy.ledger.state import Phase
from support.ledgers import (
    NOW,
    OFFICER,
    SERVER,
    START,
    RhoGate,
    begun,
    claim,
    committed,
    countersignature,
    countersigned,
    counting,
    derived,
    opened,
)


@pytest.fixture
def charging() -> Charging:
    return Charging(MemoryLedger(opened()))


def test_an_attempt_from_its_reservation_to_its_release(charging: Charging) -> None:
    reservation = begun(charging, claim())
    grant = charging.commit(reservation.id, b"sealed")
    assert grant.release() == b"sealed"
    with pytest.raises(Conflict, match="grant was used"):
        grant.release()
    assert charging.resend(reservation.id, b"sealed") == b"sealed"
    assert charging.commit(reservation.id, b"sealed").release() == b"sealed"
    assert len(charging.ledger.entries()) == 5  # the same again is no entry
    with pytest.raises(Conflict, match="other bytes"):
        charging.commit(reservation.id, b"sealeD")
    with pytest.raises(Conflict, match="not committed"):
        charging.resend(reservation.id, b"sealeD")


def test_no_grant_without_every_step_before(charging: Charging) -> None:
    identity = charging.reserve(claim(), counting(), NOW).id
    with pytest.raises(Conflict, match="cannot become begun"):
        charging.begin(identity)
    with pytest.raises(Conflict, match="cannot become committed"):
        charging.commit(identity, b"x")
    countersigned(charging, claim())
    with pytest.raises(Conflict, match="cannot become committed"):
        charging.commit(identity, b"x")
    with pytest.raises(Conflict, match="not committed"):
        charging.resend(identity, b"x")


def test_an_attempt_begins_once(charging: Charging) -> None:
    identity = begun(charging, claim()).id
    with pytest.raises(Conflict, match="cannot become begun"):
        charging.begin(identity)
    with pytest.raises(Conflict, match="cannot become voided"):
        charging.void(identity, Cause.SERVER_ABORT)
    again = begun(charging, claim(attempt=2))
    assert charging.spent() == ((Gaussian(4.0), 2),)
    assert isinstance(charging.commit(again.id, b"x"), Grant)


def test_the_same_claim_again_is_the_same_reservation_until_it_begins(charging: Charging) -> None:
    first = charging.reserve(claim(), counting(), NOW)
    assert charging.reserve(claim(), counting(most_of(charging)), NOW) == first
    assert countersigned(charging, claim()).id == first.id
    assert charging.spent() == ((Gaussian(4.0), 1),)
    with pytest.raises(Conflict, match="reserved before"):
        charging.reserve(claim(events=[Gaussian(5.0)]), counting(), NOW)
    charging.begin(first.id)
    with pytest.raises(Conflict, match="reserved before"):
        charging.reserve(claim(), counting(), NOW)


def most_of(charging: Charging) -> int:
    return sum(times for _, times in charging.spent())


def test_both_caps_gate(charging: Charging) -> None:
    committed(charging, claim())
    committed(charging, claim(study="lung"))
    before = charging.ledger.entries()
    with pytest.raises(BudgetExhausted) as caught:
        charging.reserve(claim(1), counting(data_set=2), NOW)
    assert caught.value.reasons == ("max_epsilon_data_set",)
    with pytest.raises(BudgetExhausted) as caught:
        charging.reserve(claim(1), counting(data_set=3, study=1), NOW)
    assert caught.value.reasons == ("max_epsilon_study",)
    assert charging.ledger.entries() == before
    assert charging.reserve(claim(1), counting(data_set=3, study=2), NOW)


def test_tuning_counts_for_the_data_set_and_for_its_study(charging: Charging) -> None:
    identity = charging.reserve(claim(kind=Kind.TUNING), counting(), NOW).id
    charging.begin(identity)
    assert charging.spent() == charging.spent_by("heart") == ((Gaussian(4.0), 1),)
    charging.reserve(claim(), counting(), NOW)  # round 0 is not trial 0
    with pytest.raises(BudgetExhausted):
        charging.reserve(claim(1), counting(study=2), NOW)


def test_what_is_reserved_counts_and_what_is_voided_does_not(charging: Charging) -> None:
    identity = charging.reserve(claim(), counting(1), NOW).id
    with pytest.raises(BudgetExhausted):
        charging.reserve(claim(1), counting(1), NOW)
    charging.void(identity, Cause.QUORUM)
    assert charging.reserve(claim(1), counting(1), NOW)


def test_a_real_cap_on_epsilon() -> None:
    charging = Charging(MemoryLedger(opened()))
    gate = RhoGate(8.0)
    caps = Caps(gate, gate)
    fits = 0
    while gate.fits(charging.spent(), claim(fits).composition):
        charging.reserve(claim(fits), caps, NOW)
        fits += 1
    assert fits == 33  # ρ = 1/32 each, and ρ ≤ 1.0490: √ρ = −√L + √(L + 8), L = ln 10⁵
    with pytest.raises(BudgetExhausted):
        charging.reserve(claim(fits), caps, NOW)
    assert gate.epsilon(charging.spent()) <= 8.0
    assert not gate.fits((), claim(events=[SampledGaussian(1.0, 0.02, 50)]).composition)
    with pytest.raises(BudgetExhausted):
        Charging(MemoryLedger(opened())).reserve(claim(events=[Unprotected()]), caps, NOW)


def test_the_countersignature_is_the_servers_over_this_claim_and_head(charging: Charging) -> None:
    identity = charging.reserve(claim(), counting(), NOW).id
    other = charging.reserve(claim(1), counting(), NOW).id
    with pytest.raises(IntegrityBroken, match="does not verify"):
        charging.countersign(identity, OFFICER.public, countersignature(charging.countersignable(identity)))
    with pytest.raises(IntegrityBroken, match="does not verify"):
        charging.countersign(identity, SERVER.public, countersignature(charging.countersignable(other)))
    signature = countersignature(charging.countersignable(identity))
    charging.countersign(identity, SERVER.public, signature)
    length = len(charging.ledger.entries())
    charging.countersign(identity, SERVER.public, countersignature(charging.countersignable(identity)))
    assert len(charging.ledger.entries()) == length
    entry = charging.ledger.entries()[1]
    assert isinstance(entry, Reserved)
    assert Countersignable.of(entry) == charging.countersignable(identity)


def test_what_is_shown_to_the_server_tells_neither_place_nor_salt(charging: Charging) -> None:
    identity = charging.reserve(claim(), counting(), NOW).id
    assert set(charging.countersignable(identity).model_dump()) == {"claim", "head"}
    twin = Charging(MemoryLedger(opened()))
    assert twin.reserve(claim(), counting(), NOW).id != identity  # salted: a guess cannot be confirmed


def test_a_clock_that_went_back_is_misconfigured_and_one_that_leapt_needs_a_person(charging: Charging) -> None:
    charging.reserve(claim(), counting(), Moment(START + 100, START))
    with pytest.raises(Misconfigured, match="1 s behind"):
        charging.reserve(claim(1), counting(), Moment(START + 99, START))
    ahead = Moment(START + 10_000, START)
    with pytest.raises(ApprovalNeeded):
        charging.reserve(claim(1), counting(), ahead)
    assert most_of(charging) == 1
    charging.acknowledge(Subject.CLOCK, "A. Person", "the host was off", ahead)
    assert charging.reserve(claim(1), counting(), ahead)
    charging.void(charging.ledger.state.outstanding[0].id, Cause.OPERATOR)  # asks for no time


def test_the_signed_time_is_kept_when_a_lower_one_comes(charging: Charging) -> None:
    charging.reserve(claim(), counting(), Moment(START + 50, START + 60))
    charging.reserve(claim(1), counting(), Moment(START + 50, START + 10))
    assert charging.ledger.state.signed_time == START + 60


def test_a_failure_at_one_data_set_stops_the_site() -> None:
    one, two = MemoryLedger(opened()), MemoryLedger(opened("e" * 32))
    first, second = Charging(one, kin=[two]), Charging(two, kin=[one])
    ready = countersigned(second, claim(data_set="e" * 32)).id
    first.fail(begun(first, claim()).id)
    with pytest.raises(Conflict, match="stopped"):
        second.reserve(claim(1, data_set="e" * 32), counting(), NOW)
    with pytest.raises(Conflict, match="stopped"):
        second.begin(ready)
    first.acknowledge(Subject.FAILURE, "A. Person", "disk", NOW)
    assert second.begin(ready).phase is Phase.BEGUN
    assert first.spent() == ((Gaussian(4.0), 1),)


def test_a_head_known_elsewhere_must_be_there(charging: Charging) -> None:
    heads = [charging.ledger.state.head]
    for number in range(3):
        charging.reserve(claim(number), counting(), NOW)
        heads.append(charging.ledger.state.head)
    for head in heads:
        require_at_least(charging.ledger, head.digest)
        require_at_least(charging.ledger, head.digest, head.sequence)
    with pytest.raises(IntegrityBroken, match="ALARM"):
        require_at_least(charging.ledger, "0" * 64)
    with pytest.raises(IntegrityBroken, match="ALARM"):
        require_at_least(charging.ledger, heads[-1].digest, heads[-1].sequence + 1)


def test_a_claim_on_another_data_set_is_a_mistake_of_ours(charging: Charging) -> None:
    with pytest.raises(ValueError, match="another data set"):
        charging.reserve(claim(data_set="e" * 32), counting(), NOW)


def test_a_child_is_refused_for_what_its_parent_spent() -> None:
    parent = MemoryLedger(opened())
    above = Charging(parent)
    committed(above, claim())
    child = MemoryLedger(derived("e" * 32, parent.state))
    below = Charging(child, kin=[parent])
    assert below.spent() == ((Gaussian(4.0), 1),)
    with pytest.raises(BudgetExhausted):
        below.reserve(claim(data_set="e" * 32), counting(1), NOW)
    assert below.reserve(claim(data_set="e" * 32), counting(2), NOW)
    with pytest.raises(BudgetExhausted):  # and the parent for the child's: they share records
        Charging(parent, kin=[child]).reserve(claim(1), counting(2), NOW)
