"""Trying again: with pauses that double up to a minute, and a diagnosis after the third failure, not silence.

Only `Unavailable` is tried again: it says that nobody refused anything. Every request of a site may be repeated
(the protocol's are idempotent), so a reply that was lost is no reason to stop.
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from secureproto.errors import Unavailable

T = TypeVar("T")

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0  # a site is back within a minute of its server
TELL_AFTER = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How to wait. `sleep` takes seconds; `diagnose` gives one line; `tries` of None never gives up."""

    sleep: Callable[[float], None]
    diagnose: Callable[[], str]
    tries: int | None = None

    def persist(self, action: Callable[[], T]) -> T:
        """The result of `action`, tried until the server answers.

        Raises:
            Unavailable: `tries` failures; its message is the diagnosis.
        """
        failures = 0
        while True:
            try:
                return action()
            except Unavailable as error:
                failures += 1
                self._tell(failures, error)
                self.sleep(pause(failures))

    def _tell(self, failures: int, error: Unavailable) -> None:
        if self.tries is not None and failures >= self.tries:
            raise Unavailable(f"server unreachable after {failures} tries: {self.diagnose()}", hint=error.message)
        if failures % TELL_AFTER == 0:
            log.warning("server unreachable after %d tries: %s (%s)", failures, self.diagnose(), error.message)
        else:
            log.info("try %d: %s", failures, error.message)


def pause(failures: int) -> float:
    """Seconds to wait after so many failures: doubled each time, capped, and spread over a quarter so that many
    sites do not come back in the same second."""
    full = min(FIRST_PAUSE * float(1 << min(failures - 1, 16)), LONGEST_PAUSE)
    return full * (0.75 + secrets.randbelow(256) / 1024)
