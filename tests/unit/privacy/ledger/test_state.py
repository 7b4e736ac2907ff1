"""The fold: what may follow, and what a ledger has charged."""

import os
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from secureproto.errors import ApprovalNeeded, Conflict, IntegrityBroken
from secureproto.privacy.events import Gaussian
from secureproto.privacy.ledger import entries
from secureproto.privacy.ledger.claims import Kind, releases
from secureproto.privacy.ledger.entries import (
    Acknowledged,
    Begun,
    Cause,
    Committed,
    Countersigned,
    Entry,
    Failed,
    Imported,
    Mirrored,
    Origin,
    Parent,
    Reserved,
    Subject,
    Voided,
)
from secureproto.privacy.ledger.state import OUTSTANDING, Phase, State
from support.ledgers import START, claim, hex_id, link, opened

FIRST = State.begin(opened())
SIGNATURE = {"key": "b" * 64, "signature": "AAAA"}
ONE = ((Gaussian(4.0), 1),)


def reserved(state: State, *, time: int = START, signed: int = START, **said: Any) -> Reserved:
    return Reserved(claim=claim(**said), time=time, **link(state, signed_time=signed))


def moved(state: State, kind: type[Any], identity: str, **said: Any) -> Entry:
    entry: Entry = kind(reservation=identity, **said, **link(state))
    return entry


STEPS: dict[Phase, tuple[type[Any], dict[str, Any]]] = {
    Phase.COUNTERSIGNED: (Countersigned, SIGNATURE),
    Phase.BEGUN: (Begun, {}),
    Phase.COMMITTED: (Committed, {"sealed": "c" * 64}),
    Phase.VOIDED: (Voided, {"cause": Cause.OPERATOR}),
    Phase.FAILED: (Failed, {}),
}
WAY = {
    Phase.RESERVED: (),
    Phase.COUNTERSIGNED: (Phase.COUNTERSIGNED,),
    Phase.BEGUN: (Phase.COUNTERSIGNED, Phase.BEGUN),
    Phase.COMMITTED: (Phase.COUNTERSIGNED, Phase.BEGUN, Phase.COMMITTED),
    Phase.VOIDED: (Phase.VOIDED,),
    Phase.FAILED: (Phase.COUNTERSIGNED, Phase.BEGUN, Phase.FAILED),
}


def at(phase: Phase, **said: Any) -> tuple[State, str]:
    entry = reserved(FIRST, **said)
    state, identity = FIRST.after(entry), entry.digest()
    for step in WAY[phase]:
        kind, more = STEPS[step]
        state = state.after(moved(state, kind, identity, **more))
    return state, identity


LEGAL = {
    (Phase.RESERVED, Phase.COUNTERSIGNED),
    (Phase.RESERVED, Phase.VOIDED),
    (Phase.COUNTERSIGNED, Phase.VOIDED),
    (Phase.COUNTERSIGNED, Phase.BEGUN),
    (Phase.BEGUN, Phase.COMMITTED),
    (Phase.BEGUN, Phase.FAILED),
    (Phase.COMMITTED, Phase.COMMITTED),  # the same bytes
}


@pytest.mark.parametrize("then", list(STEPS))
@pytest.mark.parametrize("now", list(Phase))
def test_only_the_legal_moves_are_taken(now: Phase, then: Phase) -> None:
    state, identity = at(now)
    kind, more = STEPS[then]
    entry = moved(state, kind, identity, **more)
    if (now, then) in LEGAL:
        assert state.after(entry).reservation(identity).phase is then
    else:
        with pytest.raises(Conflict):
            state.after(entry)


@pytest.mark.parametrize("phase", list(Phase))
def test_all_but_a_void_is_charged_in_full(phase: Phase) -> None:
    state, _ = at(phase)
    assert state.charged == state.charged_to("heart") == (() if phase is Phase.VOIDED else ONE)
    assert state.charged_to("lung") == ()
    assert bool(state.outstanding) == (phase in OUTSTANDING)


def test_tuning_needs_no_countersignature_and_is_charged_alike() -> None:
    state, identity = at(Phase.RESERVED, kind=Kind.TUNING)
    state = state.after(moved(state, Begun, identity))
    assert state.charged == state.charged_to("heart") == ONE


def test_other_bytes_for_one_grant_are_refused() -> None:
    state, identity = at(Phase.COMMITTED)
    with pytest.raises(Conflict, match="other bytes"):
        state.after(moved(state, Committed, identity, sealed="d" * 64))


def test_a_round_is_committed_once_over_all_its_attempts() -> None:
    state, first = at(Phase.BEGUN)
    second = reserved(state, attempt=2)
    state = state.after(second)
    for phase in (Phase.COUNTERSIGNED, Phase.BEGUN, Phase.COMMITTED):
        kind, more = STEPS[phase]
        state = state.after(moved(state, kind, second.digest(), **more))
    assert state.charged == ((Gaussian(4.0), 2),)  # the attempt that crashed stays spent
    with pytest.raises(Conflict, match="another attempt is committed"):
        state.after(moved(state, Committed, first, sealed="d" * 64))
    with pytest.raises(Conflict, match="attempt 2 is committed"):
        state.after(reserved(state, attempt=3))


@pytest.mark.parametrize("attempt", [1, 2])
def test_attempts_count_up(attempt: int) -> None:
    state, _ = at(Phase.VOIDED, attempt=2)
    with pytest.raises(Conflict, match="attempt 2 was reserved before"):
        state.after(reserved(state, attempt=attempt))
    assert state.after(reserved(state, attempt=3)).outstanding


def test_a_reservation_that_is_not_there_is_conflict() -> None:
    for kind, more in STEPS.values():
        with pytest.raises(Conflict, match="no reservation"):
            FIRST.after(moved(FIRST, kind, "e" * 64, **more))


def test_a_failure_stops_all_until_a_person_acts() -> None:
    state, identity = at(Phase.FAILED)
    assert state.stopped == identity
    with pytest.raises(Conflict, match="stopped"):
        state.after(reserved(state, number=1))
    acknowledged = Acknowledged(subject=Subject.FAILURE, by="A. Person", words="disk", time=START, **link(state))
    state = state.after(acknowledged)
    assert not state.stopped
    assert state.charged == ONE
    assert state.after(reserved(state, number=1)).charged == ((Gaussian(4.0), 2),)
    with pytest.raises(Conflict, match="no failure"):
        state.after(acknowledged.model_copy(update=link(state)))


def test_when_stopped_nothing_that_was_on_its_way_begins_or_commits() -> None:
    ready = reserved(FIRST, number=1)
    state = FIRST.after(ready)
    state = state.after(moved(state, Countersigned, ready.digest(), **SIGNATURE))
    running, broken = reserved(state, number=2), reserved(state, number=3)
    for entry in (running, broken):
        entry = entry.model_copy(update=link(state))
        state = state.after(entry)
        for phase in (Phase.COUNTERSIGNED, Phase.BEGUN):
            kind, more = STEPS[phase]
            state = state.after(moved(state, kind, entry.digest(), **more))
    waiting, first, second = state.reservations
    state = state.after(moved(state, Failed, second))
    with pytest.raises(Conflict, match="stopped"):
        state.after(moved(state, Begun, waiting))
    with pytest.raises(Conflict, match="stopped"):
        state.after(moved(state, Committed, first, sealed="c" * 64))
    assert state.after(moved(state, Voided, waiting, cause=Cause.QUORUM)).charged == ((Gaussian(4.0), 2),)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"sequence": 2}, "is missing"),
        ({"sequence": 0}, "is missing"),
        ({"previous": "f" * 64}, "does not follow"),
        ({"data_set": "e" * 32, "claim": claim(data_set="e" * 32)}, "another data set"),
        ({"signed_time": START - 1}, "signed time goes back"),
        ({"time": START - 1}, "time goes back"),
    ],
)
def test_what_does_not_follow_is_an_alarm(change: dict[str, Any], what: str) -> None:
    with pytest.raises(IntegrityBroken, match=what):
        FIRST.after(reserved(FIRST).model_copy(update=change))


def test_a_ledger_begins_once() -> None:
    with pytest.raises(IntegrityBroken, match="second time"):
        FIRST.after(opened(**link(FIRST)))
    for wrong in (reserved(FIRST), opened(sequence=1), opened(previous="1" * 64)):
        with pytest.raises(IntegrityBroken, match="not the opening"):
            State.begin(wrong)
    with pytest.raises(IntegrityBroken, match="no entry"):
        State.replay([])


def test_a_change_to_any_entry_breaks_the_chain_behind_it() -> None:
    one = reserved(FIRST)
    state = FIRST.after(one)
    two = reserved(state, number=1)
    assert State.replay([opened(), one, two]) == state.after(two)
    with pytest.raises(IntegrityBroken, match="does not follow"):
        State.replay([opened(), one.model_copy(update={"salt": hex_id(77)}), two])


@pytest.mark.parametrize(
    ("time", "signed", "fits"),
    [
        (START + 600, START, True),
        (START + 601, START, False),  # nobody vouches for it
        (START + 9000, START + 8400, True),  # the server does
        (START, START + 600, True),
        (START, START + 601, False),  # this host is behind the server
    ],
)
def test_a_round_is_reserved_at_a_time_that_is_vouched_for(time: int, signed: int, fits: bool) -> None:
    entry = reserved(FIRST, time=time, signed=signed)
    if fits:
        assert FIRST.after(entry).time == time
    else:
        with pytest.raises(ApprovalNeeded):
            FIRST.after(entry)


def test_a_person_sets_the_clock_right_forward_and_back() -> None:
    def clock(state: State, time: int) -> State:
        said = {"subject": Subject.CLOCK, "by": "A. Person", "words": "", "time": time}
        return state.after(Acknowledged.model_validate({**said, **link(state)}))

    ahead = clock(FIRST, START + 10**6)
    assert ahead.after(reserved(ahead, time=START + 10**6)).outstanding
    back = clock(ahead, START)
    assert back.after(reserved(back)).outstanding
    with pytest.raises(IntegrityBroken, match="before one that the server signed"):
        clock(FIRST, START - 601)


def test_an_import_charges_once_and_closes_its_rounds() -> None:
    recovered = State.begin(opened(origin=Origin.RECOVERED))
    with pytest.raises(Conflict, match="no import yet"):
        recovered.after(reserved(recovered))
    two = ((Gaussian(4.0), 2),)
    mirrored = Mirrored(study="heart", through=6, head="9" * 64, mirror="8" * 64, events=releases(two))
    state = recovered.after(Imported(mirrored=mirrored, time=START, **link(recovered)))
    assert state.charged == state.charged_to("heart") == two
    assert state.charged_to("lung") == ()
    with pytest.raises(Conflict, match="charge it twice"):
        state.after(Imported(mirrored=mirrored, time=START, **link(state)))
    with pytest.raises(Conflict, match="up to 6"):
        state.after(reserved(state, number=6))
    entry = reserved(state, number=7)
    more = state.after(entry)
    assert more.charged == ((Gaussian(4.0), 3),)
    assert more.after(moved(more, Voided, entry.digest(), cause=Cause.QUORUM)).charged == two
    used, _ = at(Phase.RESERVED)
    with pytest.raises(Conflict, match="charge it twice"):
        used.after(Imported(mirrored=mirrored, time=START, **link(used)))


@pytest.mark.parametrize(
    "said",
    [
        {"origin": Origin.DERIVED},
        {"parents": (Parent(data_set="1" * 32, head="1" * 64),)},
        {"origin": Origin.DERIVED, "parents": (Parent(data_set="d" * 32, head="1" * 64),)},
        {"origin": Origin.DERIVED, "parents": (Parent(data_set="1" * 32, head="1" * 64),) * 2},
        {"origin": Origin.DECLARED},
        {"officer": "1" * 64, "signature": "AAAA"},
    ],
)
def test_an_opening_that_says_two_things_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        opened(**said)


def test_a_claim_is_on_the_entrys_own_data_set() -> None:
    with pytest.raises(ValidationError):
        Reserved(claim=claim(data_set="e" * 32), time=START, **link(FIRST))


def test_every_entry_has_a_label_and_a_kind_of_its_own() -> None:
    kinds = set(entries._KINDS.values())
    assert len(kinds) == 9
    assert {kind.LABEL for kind in kinds} == {f"secureproto/v1/ledger-{name}" for name in entries._KINDS}


def test_stored_bytes_are_read_in_their_one_form_only() -> None:
    data = reserved(FIRST).canonical()
    assert entries.parse(data) == reserved(FIRST)
    for wrong in (b"", b"{}", b"null", data + b" ", data.replace(b'"reserved"', b'"begun"'), os.urandom(64), b"[1]"):
        with pytest.raises(IntegrityBroken):
            entries.parse(wrong)
    with pytest.raises(ValueError, match="not made as entries"):
        entries.writable(reserved(FIRST).model_copy(update={"salt": "short"}))


def test_states_compare_by_what_they_say() -> None:
    state, _ = at(Phase.BEGUN)
    assert state == at(Phase.BEGUN)[0]
    assert state != replace(state, stopped="x")
