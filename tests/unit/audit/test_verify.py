"""What a verification tells, and what it needs from its caller. The attacks are in tests/vectors/audit."""

import pytest

from secureproto.audit.checkpoint import Checkpoint, sign
from secureproto.audit.entries import Event
from secureproto.audit.export import LogBroken, Logged, Record
from secureproto.audit.log import LogHead
from secureproto.audit.verify import verify_log, verify_records
from secureproto.audit.vocabulary import Action, ClockSource, Result, Role
from secureproto.errors import IntegrityBroken
from secureproto.wire.reasons import Reason
from support.audit_logs import KEYS, OPERATOR, ORIGIN, START, events, last_checkpoint, make_log, sealed


def rejected(reason: Reason) -> Event:
    return Event(
        actor="unknown",
        role=Role.UNKNOWN,
        action=Action.UPLOAD_REJECTED,
        result=Result.REFUSED,
        reason=reason,
    )


def test_the_report() -> None:
    happened = [*events(5), rejected(Reason.STALE), rejected(Reason.STALE), rejected(Reason.CLOSED)]
    records = make_log(happened, every=4)
    report = verify_records(records, origin=ORIGIN, keys=KEYS, witnessed=[last_checkpoint(records)])
    assert (report.origin, report.size, report.checkpoints, report.witnessed) == (ORIGIN, 8, 2, 1)
    assert (report.first_time, report.last_time) == (START, START + 7)
    assert report.actions == {"server_started": 1, "upload_accepted": 4, "upload_rejected": 3}
    assert report.refusals == {"closed": 1, "stale": 2}
    assert list(report.actions) == sorted(report.actions)


def test_an_empty_log_has_no_times() -> None:
    report = verify_records(make_log([]), origin=ORIGIN, keys=KEYS)
    assert (report.size, report.first_time, report.last_time) == (0, -1, -1)


def test_time_zero_is_a_time() -> None:
    head, records = LogHead(), list[Record]()
    for time, event in enumerate(events(2)):
        head, appended = head.append(event, time=time, clock=ClockSource.MANUAL)
        records.append(Logged(appended.data, appended.leaf))
    report = verify_records([*records, sealed(head)], origin=ORIGIN, keys=KEYS)
    assert (report.first_time, report.last_time) == (0, 1)


def test_bare_entries_under_one_checkpoint() -> None:
    records = make_log(events(6))
    data = [record.data for record in records if isinstance(record, Logged)]
    text = last_checkpoint(records)
    assert verify_log(data, text, origin=ORIGIN, keys=KEYS).size == 6
    with pytest.raises(LogBroken, match="entry 5: missing"):
        verify_log(data[:-1], text, origin=ORIGIN, keys=KEYS)


def test_checkpoints_of_one_size_may_repeat() -> None:
    records = make_log(events(4))
    assert verify_records([*records, records[-1]], origin=ORIGIN, keys=KEYS).checkpoints == 2


def test_a_checkpoint_that_the_verifier_brought_must_be_of_this_log() -> None:
    foreign = sign(Checkpoint(ORIGIN, 1, bytes(32)), OPERATOR)
    with pytest.raises(IntegrityBroken, match="not signed by a key"):
        verify_records(make_log(events(4)), origin=ORIGIN, keys=KEYS, witnessed=[foreign])


def test_an_edit_under_the_brought_checkpoint_is_an_edit_and_no_fork() -> None:
    records = make_log(events(4))
    other = make_log([*events(3), rejected(Reason.STALE)])
    with pytest.raises(LogBroken, match="entry 0: it or one up to entry 3 is not what was signed at 4"):
        verify_records([*other[:-1], records[-1]], origin=ORIGIN, keys=KEYS, witnessed=[last_checkpoint(records)])


def test_an_edit_before_the_brought_checkpoint_is_found_when_no_other_checkpoint_follows() -> None:
    records = make_log(events(6), every=100)
    shorter = last_checkpoint(make_log(events(3)))
    other = make_log([*events(2), rejected(Reason.STALE), *events(4)[1:]], every=100)
    with pytest.raises(LogBroken, match="a fork") as caught:
        verify_records(other, origin=ORIGIN, keys=KEYS, witnessed=[shorter])
    assert caught.value.sequence == 0
    assert verify_records(records, origin=ORIGIN, keys=KEYS, witnessed=[shorter]).size == 6


def test_a_fork_is_named_by_the_first_of_several_brought_checkpoints_that_disagrees() -> None:
    kept = [last_checkpoint(make_log(events(size))) for size in (6, 2, 5)]
    other = make_log([*events(3), rejected(Reason.STALE), *events(7)[3:]], every=100)
    with pytest.raises(LogBroken, match="one up to entry 4 is not what the checkpoint that you brought") as caught:
        verify_records(other, origin=ORIGIN, keys=KEYS, witnessed=kept)
    assert caught.value.sequence == 2
