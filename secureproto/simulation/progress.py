"""What is told of a run while it goes on."""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from secureproto.data.settings import FOLD_SHARE, LONGER
from secureproto.simulation.history import RECEIVED, TEST, VALIDATION, Measured, RoundRecord
from secureproto.study.schema import StudyFile

MINUTE = 60.0  # seconds; what is left of less is not worth a word
CHOICE = round(LONGER / FOLD_SHARE)  # local trainings of a site that chooses, and a few more


class Progress:
    """A Watch that tells of every round that was scored: the mean accuracy over its sites, and how long the rounds
    that are left will take if they go on as those that were seen; and of the wait while sites choose what they use.
    Where there are validation records it tells of those: who watches test scores while choosing chooses by them.

    `run`: its name; `choosing`: whether its sites choose; `clock`: seconds. A run that was stopped is told of from
    where it goes on. Of a study that may stop early nobody knows how many rounds are left.
    """

    def __init__(
        self,
        run: str,
        study: StudyFile,
        say: Callable[[str], None],
        *,
        choosing: bool = False,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._run, self._total, self._known, self._say = run, study.rounds.total, study.stopping is None, say
        self._choosing, self._clock = choosing, clock
        self._started, self._seen = clock(), 0

    def __call__(self, record: RoundRecord) -> None:
        """Take in a round that is done."""
        self._seen += 1
        left = self._total - 1 - record.number
        scored = [site.points[RECEIVED] for site in record.sites.values() if RECEIVED in site.points]
        if scored:
            self._say(f"{self._run}: round {record.number} of {self._total}, {_told(scored)}{self._estimate(left)}")

    def before_last(self) -> None:
        """Tell that the rounds are over and the sites choose: no line comes for as long as many rounds took."""
        if self._choosing:
            self._say(f"{self._run}: sites choose what they use now, at some {CHOICE} local trainings each")

    def _estimate(self, left: int) -> str:
        minutes = (self._clock() - self._started) / self._seen * left / MINUTE
        if minutes < 1 or not self._known:
            return ""
        rounds = "other round takes" if left == 1 else f"other {left} rounds take"
        amount = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / MINUTE:.0f} h"
        return f"; the {rounds} about {amount}"


def _told(scored: Sequence[Mapping[str, Measured]]) -> str:
    part = VALIDATION if any(VALIDATION in parts for parts in scored) else TEST
    known = [parts[part].accuracy for parts in scored if part in parts]
    return f"{'validation ' if part == VALIDATION else ''}accuracy as received {sum(known) / len(known):.3f}"
