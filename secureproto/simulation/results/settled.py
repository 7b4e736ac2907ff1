"""Whether own data only had time enough: a hospital alone is not bound to the rounds of a federation.

A gain over own data only that is still rising when the rounds end may be a gain of time, not of joining; so may one
of a model that its site trained on after them.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from secureproto.data.settings import LONGER
from secureproto.simulation.history import RECEIVED, History, method_name
from secureproto.simulation.results.reported import evaluated
from secureproto.simulation.results.summary import MethodSummary

RISE = 0.01  # of accuracy
ALONE = "local"
_LONGER_KINDS = ("longer", "midway")  # of `learning.choice`


def still_rising(histories: Sequence[History]) -> list[str]:
    """A line for each way of training on own data only whose mean accuracy rose by over RISE from the last version
    before the last third of the rounds on, over the runs that ended; none where too few were scored to tell."""
    labels = dict.fromkeys(one.method for one in histories if method_name(one.method) == ALONE and one.complete)
    told = []
    for label in labels:
        rises = [found for one in histories if one.method == label and (found := _rise(one)) is not None]
        mean = fmean(one.by for one in rises) if rises else 0.0
        if mean > RISE:
            rose = f"{label}: accuracy rose by {mean:.3f} from version {rises[0].before} to {rises[0].last}"
            told.append(
                f"{rose}. A site alone may train on: with more rounds, or {ALONE}:local_epochs=…, own data only may "
                "be worth more than it seems here"
            )
    return told


def trained_longer(methods: Sequence[MethodSummary]) -> list[str]:
    """A line for each method whose sites chose what was trained on after the last round, where own data only, which
    was not, stands beside it."""
    if not any(method_name(method.label) == ALONE for method in methods):
        return []
    told = []
    for method in methods:
        longer = sum(method.choices.get(kind, 0) for kind in _LONGER_KINDS)
        if longer:
            of = sum(method.choices.values())
            told.append(
                f"{method.label}, chosen: {longer} of {of} choices come from {LONGER} local trainings after the last "
                f"round, which {ALONE} did not have: {LONGER} rounds more show what those alone bring"
            )
    return told


class _Rise(NamedTuple):
    by: float
    before: int
    last: int


def _rise(history: History) -> _Rise | None:
    """Mean accuracy as received of the last version over that of the last one before the last third."""
    scored = [(record.number, fmean(at.accuracy for at in scores.values())) for record, scores in
              evaluated(history, RECEIVED)]  # fmt: skip
    early = [(number, accuracy) for number, accuracy in scored if 0 < number <= 2 * scored[-1][0] / 3]
    if not early:
        return None
    (before, low), (last, high) = early[-1], scored[-1]
    return _Rise(high - low, before, last)
