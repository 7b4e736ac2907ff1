"""Signed times and this host's clock: backwards stops, ten minutes forward needs a person.

Invariants: the high-water mark of times that the server signed is durable and never falls; nothing is signed with a
time far behind it; a server whose signed time and this host's clock differ by more than ten minutes is not worked
with, whichever of the two is wrong.
"""

from secureproto.clock import Clock, seconds, utc_text
from secureproto.errors import ApprovalNeeded, IntegrityBroken, Misconfigured
from secureproto.wire.limits import LIMITS
from secureproto_client.facts import Facts

MARK = "signed_time"
STEP = 5  # seconds that a server's clock may be stepped back by its time service without anything being wrong


class Times:
    """The site's judgement of times."""

    def __init__(self, clock: Clock, facts: Facts) -> None:
        self._clock = clock
        self._facts = facts

    def now(self) -> int:
        """The time to sign with.

        Raises:
            Misconfigured: this host's clock is behind what the server has signed before.
        """
        now, mark = seconds(self._clock), self._facts.number(MARK)
        if now < mark - LIMITS.clock_skew:
            raise Misconfigured(
                f"this host's clock shows {utc_text(now)}, {mark - now} s before the server's last message",
                hint="set the clock (time service), then start again",
            )
        return now

    def accept(self, signed: int) -> None:
        """Take a time that the server signed just now.

        Raises:
            IntegrityBroken: it lies before one that the server signed earlier.
            ApprovalNeeded: it is more than ten minutes from this host's clock.
        """
        now, mark = seconds(self._clock), self._facts.number(MARK)
        if signed < mark - STEP:
            raise IntegrityBroken(
                f"the server signed {utc_text(signed)}, {mark - signed} s before what it signed earlier",
                hint="an old message is being replayed, or the server's clock was set back: call the operator",
            )
        if abs(signed - now) > LIMITS.clock_skew:
            raise ApprovalNeeded(
                f"the server's clock and this host's are {abs(signed - now)} s apart (host {utc_text(now)})",
                hint="find out which is wrong and set it; nothing is signed until they agree to ten minutes",
            )
        self._facts.raise_number(MARK, signed)
