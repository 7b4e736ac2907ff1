"""How many refusals of one site get a log entry of their own: so many at once, then one a minute.

Why: the log is kept for years and a refusal costs its sender nothing, so a site whose key was stolen could fill the
disk. Invariants: every refusal is counted in the metrics and told in the process's log; every one is in the audit
log too, by an entry of its own or by the number `left_out` of the next one.
"""

import threading
from dataclasses import dataclass

from secureproto.clock import Clock

AT_ONCE = 60  # a site that sends a wrong manifest for each of a day's rounds stays below it
REFILL_SECONDS = 60.0


@dataclass
class _Account:
    tokens: float
    since: float
    left_out: int = 0


class Allowance:
    """One account for each site; names are those of enrolled sites, so their number is bounded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._lock = threading.Lock()

    def take(self, site: str) -> int | None:
        """None when the refusal gets no entry; else how many before it got none."""
        now = self._clock.monotonic()
        with self._lock:
            account = self._accounts.setdefault(site, _Account(AT_ONCE, now))
            account.tokens = min(AT_ONCE, account.tokens + (now - account.since) / REFILL_SECONDS)
            account.since = now
            if account.tokens < 1:
                account.left_out += 1
                return None
            account.tokens -= 1
            left_out, account.left_out = account.left_out, 0
            return left_out
