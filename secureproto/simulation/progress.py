"""What is told of a run while it goes on."""

from collections.abc import Callable
from time import perf_counter

from secureproto.simulation.history import RECEIVED, TEST, RoundRecord

MINUTE = 60.0  # seconds; what is left of less is not worth a word


class Progress:
    """A Watch that tells of every round that was scored: the mean accuracy over its sites, and how long the rounds
    that are left will take if they go on as those that were seen.

    `run`: its name; `total`: its rounds; `clock`: seconds. A run that was stopped is told of from where it goes on.
    """

    def __init__(
        self, run: str, total: int, say: Callable[[str], None], clock: Callable[[], float] = perf_counter
    ) -> None:
        self._run, self._total, self._say, self._clock = run, total, say, clock
        self._started, self._seen = clock(), 0

    def __call__(self, record: RoundRecord) -> None:
        """Take in a round that is done."""
        self._seen += 1
        scores = [site.points[RECEIVED][TEST].accuracy for site in record.sites.values() if RECEIVED in site.points]
        if scores:
            of = f"round {record.number} of {self._total}"
            self._say(f"{self._run}: {of}, accuracy as received {sum(scores) / len(scores):.3f}{self._left(record)}")

    def _left(self, record: RoundRecord) -> str:
        rounds = self._total - 1 - record.number
        minutes = (self._clock() - self._started) / self._seen * rounds / MINUTE
        if minutes < 1:
            return ""
        amount = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
        return f"; the other {rounds} rounds take about {amount}"
