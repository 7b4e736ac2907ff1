"""How long a budget lasts: the rounds that still fit, exactly, and what of the budget is spent in those terms.

Invariants: `remaining` rounds more pass the gate, and one more does not (unless MAX_ROUNDS fit); rounds in which
prototypes are released cost more, and which ones these are is reckoned with; ε is never taken as linear in rounds.
Source: PRIVACY.md, "Accounting".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from secureproto.governance.plan import events_of_rounds
from secureproto.privacy.accounting.rdp import Filter
from secureproto.privacy.accounting.tally import Tally, joined, tally
from secureproto.privacy.events import Composition
from secureproto.study.privacy import PrivacySection

MAX_ROUNDS = 1_000_000  # as rounds.total of a study: no forecast goes beyond it


@dataclass(frozen=True)
class Forecast:
    """Rounds that still fit; rounds that would fit a fresh budget from round 0 on; the share that is spent, 0 … 1."""

    remaining: int
    affordable: int

    @property
    def spent_ratio(self) -> float:
        """1 − remaining / affordable; 1 where not one round was ever affordable."""
        if not self.affordable:
            return 1.0
        # the next rounds may be those without a release, and then as many fit as from zero, or one more
        return max(0.0, 1 - self.remaining / self.affordable)


def forecast(section: PrivacySection, gate: Filter, *, spent: Composition, next_round: int) -> Forecast:
    """The forecast of a study under one gate. `spent`: all that the gate has let through, of other studies too.

    Kept per gate, plan, multiset of events and place in the cycle of releases.
    """
    phase = next_round % section.prototypes.release_every
    return Forecast(_remaining(section, gate, tally(spent), phase), _remaining(section, gate, tally(), 0))


def remaining_rounds(section: PrivacySection, gate: Filter, *, spent: Composition, next_round: int) -> int:
    """Only the rounds that still fit."""
    return _remaining(section, gate, tally(spent), next_round % section.prototypes.release_every)


@lru_cache(4096)
def _remaining(section: PrivacySection, gate: Filter, spent: Tally, phase: int) -> int:
    def holds(count: int) -> bool:
        return gate.admits(joined(spent, tally(events_of_rounds(section, phase, count))))

    return last_that_holds(holds, MAX_ROUNDS)


def last_that_holds(holds: Callable[[int], bool], most: int) -> int:
    """The largest of 1 … `most` that holds, of a property that once lost never comes back; 0 if 1 does not hold."""
    low, high = 0, 1
    while high <= most and holds(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
