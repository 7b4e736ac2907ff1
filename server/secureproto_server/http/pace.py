"""How fast a body must come, not counting the time in which we ourselves would not read.

Invariant: a peer is judged only over stretches in which it could have sent: while reading is paused because the
application has not yet taken what is there, no time passes here.
"""

from asyncio import Transport
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

Now = Callable[[], float]  # monotonic seconds


class TimedFlow(FlowControl):
    """Flow control that knows for how long reading was paused."""

    def __init__(self, transport: Transport, now: Now) -> None:
        super().__init__(transport)
        self._now = now
        self._paused_since: float | None = None
        self._paused = 0.0

    def pause_reading(self) -> None:
        if self._paused_since is None:
            self._paused_since = self._now()
        super().pause_reading()

    def resume_reading(self) -> None:
        if self._paused_since is not None:
            self._paused += self._now() - self._paused_since
            self._paused_since = None
        super().resume_reading()

    def reading_seconds(self) -> float:
        """A clock that stands still while reading is paused."""
        now = self._now()
        paused = 0.0 if self._paused_since is None else now - self._paused_since
        return now - self._paused - paused


class BodyPace:
    """Judges a body stretch by stretch, so that a fast beginning buys no long stall."""

    def __init__(self, rate: float, stretch: float, reading: Now) -> None:
        """`rate` in bytes a second over each `stretch` of seconds of the clock `reading`."""
        self._least = rate * stretch
        self._stretch = stretch
        self._reading = reading
        self._since = reading()
        self._received = 0

    def received(self, count: int) -> None:
        """Count bytes."""
        self._received += count

    def restart(self) -> None:
        """Begin a new stretch: what came before was not the peer's to hasten."""
        self._since = self._reading()
        self._received = 0

    def too_slow(self) -> bool:
        """Whether the stretch is over and too little came in it; begins the next one when it is over."""
        if self.remaining() > 0:
            return False
        slow = self._received < self._least
        self.restart()
        return slow

    def remaining(self) -> float:
        """Seconds of reading until the stretch can be judged."""
        return self._stretch - (self._reading() - self._since)
