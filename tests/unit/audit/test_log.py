"""The writing side: heads before and after, what is stored, and the clock."""

import pytest

from secureproto.audit.entries import Event
from secureproto.audit.log import LogHead
from secureproto.audit.merkle import EMPTY_ROOT, leaf_hash, root_of, stored_leaves
from secureproto.audit.vocabulary import Action, ClockSource, Detail, Role
from secureproto.errors import Unavailable
from support.audit_logs import START, events, started

CLOCK = ClockSource.MANUAL


def test_a_log_grows() -> None:
    head, nodes, leaves = LogHead(), dict[tuple[int, int], bytes](), list[bytes]()
    assert head.root == EMPTY_ROOT
    for i, event in enumerate(events(21)):
        head, appended = head.append(event, time=START + i, clock=CLOCK)
        assert (appended.entry.sequence, appended.entry.time, head.size) == (i, START + i, i + 1)
        assert appended.leaf == leaf_hash(appended.data) == leaf_hash(appended.entry.canonical())
        leaves.append(appended.leaf)
        nodes |= {(level, i >> level): node for level, node in enumerate(appended.nodes)}
        assert head.root == root_of(head.size, stored_leaves(leaves))
    assert LogHead.load(21, START + 20, lambda level, index: nodes[level, index]) == head


def test_a_failed_transaction_leaves_the_old_head_good() -> None:
    head, _ = LogHead().append(started(), time=START, clock=CLOCK)
    lost, _ = head.append(started("1"), time=START, clock=CLOCK)
    again, appended = head.append(started("2"), time=START, clock=CLOCK)
    assert (appended.entry.sequence, again.size, lost.size) == (1, 2, 2)
    assert again.root != lost.root


def test_a_clock_set_back_stops_the_log() -> None:
    head, _ = LogHead().append(started(), time=START, clock=CLOCK)
    with pytest.raises(Unavailable, match="30 s behind"):
        head.append(started(), time=START - 30, clock=CLOCK)


def test_only_the_entry_that_says_so_steps_back() -> None:
    head, _ = LogHead().append(started(), time=START, clock=CLOCK)
    said = Event(
        actor="ada", role=Role.OPERATOR, action=Action.CLOCK_SET_BACK, details={Detail.SKEW: -30}, reason="rtc"
    )
    head, _ = head.append(said, time=START - 30, clock=CLOCK)
    head, appended = head.append(started(), time=START - 29, clock=CLOCK)
    assert (appended.entry.time, head.time) == (START - 29, START - 29)
