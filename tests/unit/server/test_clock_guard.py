import pytest

from secureproto.clock import ManualClock
from secureproto.errors import Misconfigured, Unavailable
from secureproto_server.clock_guard import GuardedClock, check_mark, keep_mark
from secureproto_server.storage.memory import MemoryStore


class Loose:
    """A clock whose two hands a test moves apart."""

    def __init__(self) -> None:
        self.wall, self.mono = 1_000_000.0, 0.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.mono


def test_time_passes() -> None:
    clock = ManualClock(1000.0)
    guarded = GuardedClock(clock)
    clock.advance(5000.0)
    assert guarded.now() == 6000.0
    assert guarded.monotonic() == 5000.0


def test_a_clock_set_back_stops_until_it_is_right_again() -> None:
    loose = Loose()
    guarded = GuardedClock(loose)
    loose.wall -= 3
    with pytest.raises(Unavailable, match="set back"):
        guarded.now()
    loose.wall += 4
    assert guarded.now() == 1_000_001.0


def test_a_little_taken_back_by_a_time_daemon_is_not_given_out() -> None:
    loose = Loose()
    guarded = GuardedClock(loose)
    loose.wall -= 1
    assert guarded.now() == 1_000_000.0


def test_a_leap_forward_stops_until_a_person_restarts() -> None:
    loose = Loose()
    guarded = GuardedClock(loose)
    loose.wall, loose.mono = loose.wall + 700, 60
    with pytest.raises(Unavailable, match="leapt"):
        guarded.now()
    loose.mono += 1
    with pytest.raises(Unavailable, match="leapt"):
        guarded.now()
    loose.mono = 200
    assert guarded.now() == 1_000_700.0


@pytest.mark.parametrize(
    ("now", "accept", "leap"), [(1000, False, 0), (1600, False, 0), (1601, True, 601), (999, False, 0)]
)
def test_a_start_within_bounds_or_accepted(now: int, accept: bool, leap: int) -> None:
    store = MemoryStore()
    with store.transaction("test") as tx:
        keep_mark(tx, 1000)
        keep_mark(tx, 900)
        assert check_mark(tx, now, accept_forward=accept) == leap


@pytest.mark.parametrize(("now", "accept"), [(997, False), (997, True), (1601, False)])
def test_a_start_out_of_bounds(now: int, accept: bool) -> None:
    store = MemoryStore()
    with store.transaction("test") as tx:
        keep_mark(tx, 1000)
        with pytest.raises(Misconfigured, match="clock"):
            check_mark(tx, now, accept_forward=accept)


def test_a_first_start_has_no_mark() -> None:
    with MemoryStore().transaction("test") as tx:
        assert check_mark(tx, 5, accept_forward=False) == 0
