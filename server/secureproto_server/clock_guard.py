"""A clock that stops when the host's clock jumps, and its durable high-water mark.

Invariants: times given out never go backwards, over restarts too; a wall clock that is set back stops the server
until it is right again; one that leaps forward by more than ten minutes stops it until a person has said that the
new time is right (a forward leap would expire what is not yet due). SECURITY.md, Clock.
"""

import threading

from secureproto.clock import Clock
from secureproto.errors import Misconfigured, Unavailable
from secureproto.wire.limits import LIMITS
from secureproto_server.storage.records import Meta
from secureproto_server.storage.store import Transaction

MARK = "clock-high-water"
SLACK = 2.0  # seconds that a time daemon may take back at once without anybody noticing


class GuardedClock:
    """The host's clock, compared at each reading with the time that has gone by since the last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wall, self._mono = clock.now(), clock.monotonic()

    def now(self) -> float:
        """Seconds since the epoch, never less than before.

        Raises:
            Unavailable: the host's clock was set back or leapt forward.
        """
        with self._lock:
            wall, mono = self._clock.now(), self._clock.monotonic()
            if wall < self._wall - SLACK:
                raise Unavailable(
                    "the server's clock was set back", hint="set it right: nothing is signed until then"
                )
            if wall > self._wall + (mono - self._mono) + LIMITS.clock_skew:
                raise Unavailable(
                    "the server's clock leapt forward by more than ten minutes",
                    hint="check it, and start the server again with --accept-clock-forward",
                )
            self._wall, self._mono = max(wall, self._wall), mono
            return self._wall

    def monotonic(self) -> float:
        """As the host's."""
        return self._clock.monotonic()


def check_mark(tx: Transaction, now: int, *, accept_forward: bool) -> int:
    """Compare the time at the start with the last one that was kept; returns the accepted leap in seconds, else 0.

    Raises:
        Misconfigured: backwards, or forward by more than ten minutes and nobody has said that it is right.
    """
    row = tx.get(Meta, MARK)
    behind = 0 if row is None else int(row.value) - now
    if behind > SLACK:
        raise Misconfigured(
            f"the clock is {behind} s behind the last time this server signed", hint="set the clock right first"
        )
    if -behind > LIMITS.clock_skew and not accept_forward:
        raise Misconfigured(
            f"the clock is {-behind} s ahead of the last time this server was running",
            hint="after a long stop that is right: check the clock, then add --accept-clock-forward",
        )
    return -behind if -behind > LIMITS.clock_skew else 0


def keep_mark(tx: Transaction, now: int) -> None:
    """Remember that this time was reached."""
    row = tx.get(Meta, MARK)
    if row is None or int(row.value) < now:
        tx.put(Meta(MARK, str(now)))
