"""Whether own data only had time enough: a hospital alone is not bound to the rounds of a federation.

A gain over own data only that is still rising when the rounds end may be a gain of time, not of joining.
"""

from collections.abc import Sequence
from statistics import fmean

from secureproto.simulation.history import RECEIVED, History
from secureproto.simulation.results.reported import evaluated

RISE = 0.01  # of accuracy
ALONE = "local"


def still_rising(histories: Sequence[History]) -> list[str]:
    """A line for each way of training on own data only whose mean accuracy rose by over RISE in the last third of the
    rounds, over the runs that ended; none where too few rounds were scored to tell."""
    labels = dict.fromkeys(one.method for one in histories if one.method.partition(":")[0] == ALONE and one.complete)
    found = []
    for label in labels:
        rises = [rise for one in histories if one.method == label and (rise := _rise(one)) is not None]
        if rises and fmean(rises) > RISE:
            rose = f"{label}: accuracy rose by {fmean(rises):.3f} in the last third of the rounds"
            found.append(
                f"{rose}. A site alone may train on: with more rounds, or {ALONE}:local_epochs=…, own data only may "
                "be worth more than it seems here"
            )
    return found


def _rise(history: History) -> float | None:
    """Mean accuracy as received of the last version over that of the last one before the last third."""
    scored = [(record.number, fmean(at.accuracy for at in scores.values())) for record, scores in
              evaluated(history, RECEIVED)]  # fmt: skip
    before = [accuracy for number, accuracy in scored if 0 < number <= 2 * scored[-1][0] / 3]
    return scored[-1][1] - before[-1] if before else None
