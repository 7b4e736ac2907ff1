"""Time, as a value that is passed. The only module that reads the system clock.

Invariant: every other module takes a `Clock`, so a test owns time. Signed times are whole seconds since the
epoch, UTC; durations are seconds.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, for measuring durations."""
        ...


class SystemClock:
    """The host's clock."""

    def now(self) -> float:
        return time.time()  # noqa: TID251 - the one place

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told: for tests and for replaying past rounds."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds` (negative: the wall clock was set back, monotonic time stands)."""
        self._now += seconds
        self._monotonic += max(seconds, 0.0)


def seconds(clock: Clock) -> int:
    """The time of `clock` as a signed document writes it: whole seconds."""
    return int(clock.now())


def utc_text(timestamp: float) -> str:
    """A time as ISO 8601 in UTC, for people."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
