"""The pace of a body on a clock that the test moves."""

import asyncio

from secureproto.clock import ManualClock
from secureproto_server.http.pace import BodyPace, TimedFlow


class Pausable(asyncio.Transport):
    """A transport that only remembers whether it reads."""

    reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def start(rate: float = 10, stretch: float = 2) -> tuple[ManualClock, TimedFlow, BodyPace]:
    clock = ManualClock(0)

    async def flow() -> TimedFlow:
        return TimedFlow(Pausable(), clock.monotonic)

    timed = asyncio.run(flow())
    return clock, timed, BodyPace(rate, stretch, timed.reading_seconds)


def test_it_is_judged_at_the_end_of_a_stretch() -> None:
    clock, _, pace = start()
    clock.advance(1.9)
    assert not pace.too_slow()
    clock.advance(0.1)
    assert pace.too_slow()


def test_just_enough_is_enough() -> None:
    clock, _, pace = start()
    pace.received(20)
    clock.advance(2)
    assert not pace.too_slow()


def test_a_fast_beginning_buys_no_stall() -> None:
    clock, _, pace = start()
    pace.received(10**9)
    clock.advance(2)
    assert not pace.too_slow()
    clock.advance(2)
    assert pace.too_slow()


def test_paused_time_does_not_count() -> None:
    clock, flow, pace = start()
    clock.advance(1)
    flow.pause_reading()
    flow.pause_reading()
    clock.advance(100)
    assert pace.remaining() == 1
    assert not pace.too_slow()
    flow.resume_reading()
    flow.resume_reading()
    clock.advance(0.9)
    assert not pace.too_slow()
    clock.advance(0.2)
    assert pace.too_slow()


def test_restarting_forgives() -> None:
    clock, _, pace = start()
    clock.advance(50)
    pace.restart()
    assert not pace.too_slow()
    assert pace.remaining() == 2
