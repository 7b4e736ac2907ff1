"""Entries: one encoding, complete by action, nothing in them that must not be logged."""

from typing import Any

import pytest
from pydantic import ValidationError

from secureproto.audit.entries import MAX_DETAILS, MAX_ENTRY_BYTES, Entry, Event
from secureproto.audit.vocabulary import NEEDS, REFUSALS, Action, ClockSource, Detail, Result, Role
from secureproto.errors import Rejected
from support import audit_encoder
from support.audit_logs import started, upload

FULL: dict[str, Any] = {
    "actor": "ada",
    "role": Role.OPERATOR,
    "object": "cleveland",
    "object_digest": "a" * 64,
    "before": "b" * 64,
    "after": "c" * 64,
    "study": "heart",
    "round": 0,
    "reason": "malformed",
    "meaning": "approve site cleveland",
    "policy_digest": "d" * 64,
}


def details_of(action: Action) -> dict[Detail, str | int]:
    return {Detail(name): "x" for name in NEEDS[action] if name in frozenset(Detail)}


def event(action: Action, **changes: object) -> Event:
    result = Result.REFUSED if action in REFUSALS else Result.DONE
    return Event.model_validate(FULL | {"action": action, "result": result, "details": details_of(action)} | changes)


def test_every_action_says_what_it_needs_and_every_need_has_a_field() -> None:
    assert set(NEEDS) == set(Action)
    assert set(Action) >= REFUSALS
    for needs in NEEDS.values():
        assert needs <= set(Event.model_fields) | set(Detail)


@pytest.mark.parametrize("action", Action)
def test_a_full_event_becomes_an_entry_and_comes_back(action: Action) -> None:
    entry = Entry.of(event(action), sequence=5, time=1_790_000_000, clock=ClockSource.SYNCHRONISED)
    assert Entry.parse(entry.canonical()) == entry


@pytest.mark.parametrize("action", Action)
def test_an_action_that_leaves_out_what_it_must_say_cannot_be_made(action: Action) -> None:
    for name in sorted(NEEDS[action]):
        missing: dict[str, object] = {name: -1 if name == "round" else ""}
        if name in frozenset(Detail):
            missing = {"details": {key: "x" for key in details_of(action) if key != name}}
        with pytest.raises(ValidationError, match=f"{action} needs {name}"):
            event(action, **missing)


@pytest.mark.parametrize("action", sorted(REFUSALS))
def test_a_refusal_cannot_be_logged_as_done(action: Action) -> None:
    with pytest.raises(ValidationError, match="has the result refused"):
        event(action, result=Result.DONE)


def test_an_upload_is_rejected_with_a_reason_of_the_one_enum() -> None:
    with pytest.raises(ValidationError, match="one Reason enum"):
        event(Action.UPLOAD_REJECTED, reason="did not like it")


@pytest.mark.parametrize(
    "changes",
    [
        {"actor": ""},
        {"actor": "a\nb"},
        {"actor": "\x1b[31m"},
        {"actor": "a" * 129},
        {"role": "root"},
        {"study": "Heart"},
        {"study": "heart-"},
        {"study": "h" * 64},
        {"round": -2},
        {"round": 1.0},
        {"round": 2**40 + 1},
        {"object_digest": "A" * 64},
        {"object_digest": "a" * 63},
        {"reason": "x" * 301},
        {"details": {"loss": "0.3"}},
        {"details": {Detail.UPLOADS: 0.3}},
        {"details": {Detail.UPLOADS: 2**53}},
        {"details": {Detail.SKEW: -(2**53)}},
        {"details": {Detail.VERSION: ["0.1"]}},
        {"details": dict.fromkeys(list(Detail)[: MAX_DETAILS + 1], 1)},
        {"tensor": [1]},
    ],
    ids=str,
)
def test_what_an_event_cannot_say(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        event(Action.ROUND_OPENED, **changes)


def test_the_bytes_are_those_of_the_second_encoder() -> None:
    entry = Entry.of(
        Event(
            actor="site-7",
            role=Role.SITE,
            action=Action.UPLOAD_ACCEPTED,
            study="heart",
            round=3,
            object_digest=f"{7:064x}",
            policy_digest="d" * 64,
            details={Detail.PROTECTION: "unprotected"},
        ),
        sequence=7,
        time=1_790_000_007,
        clock=ClockSource.SYSTEM,
    )
    assert entry.canonical() == audit_encoder.encode(audit_encoder.entry(7))


@pytest.mark.parametrize(
    "change", [{"action": "upload_hidden"}, {"time": -1}, {"clock": "sundial"}, {"sequence": -1}, {"more": 1}]
)
def test_bytes_that_are_no_entry(change: dict[str, object]) -> None:
    with pytest.raises(Rejected):
        Entry.parse(audit_encoder.encode(audit_encoder.entry(7) | change))


def test_an_entry_without_a_field_is_no_entry() -> None:
    fields = audit_encoder.entry(7)
    del fields["meaning"]
    with pytest.raises(Rejected, match="canonical"):
        Entry.parse(audit_encoder.encode(fields))


def test_the_longest_entry_fits_the_readers_limit() -> None:
    line = "\U0001f512" * 300
    longest = Entry.of(
        event(
            Action.SITE_APPROVED,
            actor="\U0001f512" * 128,
            object=line,
            reason=line,
            meaning=line,
            study="s" * 63,
            details=dict.fromkeys(list(Detail)[:MAX_DETAILS], line),
        ),
        sequence=2**40,
        time=2**40,
        clock=ClockSource.SYNCHRONISED,
    )
    assert MAX_ENTRY_BYTES * 0.8 < len(longest.canonical()) <= MAX_ENTRY_BYTES


def test_an_event_is_what_it_was_made_of() -> None:
    assert upload(3).details == {"protection": "unprotected"}
    assert started().result is Result.DONE


def test_the_largest_numbers_have_a_canonical_form() -> None:
    largest = event(Action.CLOCK_JUMPED, round=2**40, details={Detail.SKEW: -(2**53) + 1, Detail.UPLOADS: 2**53 - 1})
    assert Event.parse(largest.canonical()) == largest
