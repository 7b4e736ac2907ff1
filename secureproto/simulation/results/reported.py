"""Which version of a run is reported, and the scores that its sites had with it.

Invariant: no test record decides anything here.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple, get_args

from secureproto.errors import Misconfigured
from secureproto.simulation.history import CHOSEN, RECEIVED, TEST, TUNED, VALIDATION, History, Measured, RoundRecord
from secureproto.simulation.statistics import exact

Rule = Literal["last", "validation"]
RULES: tuple[Rule, ...] = get_args(Rule)
LAST, VALIDATED = RULES
POINTS = (RECEIVED, TUNED, CHOSEN)

Scored = Mapping[str, Measured]  # by site, in the order of their names


class Reported(NamedTuple):
    """The version of a run that is reported at a point, and the scores of its sites on their test records."""

    round_number: int
    scores: Scored
    choices: tuple[str, ...]  # what the sites chose, where they did


def scored(record: RoundRecord, point: str, part: str) -> Scored:
    """Scores by site at a point, of the sites that have them."""
    found = {site: at.points[point].get(part) for site, at in sorted(record.sites.items()) if point in at.points}
    return {site: measured for site, measured in found.items() if measured is not None}


def evaluated(history: History, point: str, part: str = TEST) -> Iterator[tuple[RoundRecord, Scored]]:
    """The versions of which all sites were scored at a point, from the first to the last.

    Where a round takes a share of the sites, its version is scored at those alone: means over other sites each time
    would be compared, so only the last version counts, which every site is scored on.
    """
    found = [
        (record, scores)
        for record in sorted(history.rounds, key=lambda record: record.number)
        if (scores := scored(record, point, part))
    ]
    sites = max((len(scores) for _, scores in found), default=0)
    yield from (one for one in found if len(one[1]) == sites)


def reported(history: History, point: str, rule: Rule) -> Reported | None:
    """The reported version at a point; None where nothing was scored there.

    `last`: the last one that was scored. `validation`: the one with the best mean validation accuracy over the sites
    at that point, the earliest of equals; where a point has no validation scores, the last one.
    """
    versions = list(evaluated(history, point))
    if not versions:
        return None
    record, scores = versions[-1]
    if rule == VALIDATED:
        validated = [
            (exact(fmean(measured.accuracy for measured in validation.values())), record.number)
            for record, _ in versions
            if (validation := scored(record, point, VALIDATION))
        ]
        if validated:
            best = max(validated, key=lambda found: (found[0], -found[1]))[1]
            record, scores = next(version for version in versions if version[0].number == best)
    choices = [at.chosen for site, at in sorted(record.sites.items()) if site in scores and at.chosen is not None]
    return Reported(record.number, scores, tuple(choices) if point == CHOSEN else ())


def check_rule(histories: Sequence[History], rule: Rule) -> None:
    """Raise where the rule has nothing to decide by.

    Raises:
        Misconfigured: an unknown rule; or `validation` where no run has validation scores, or rounds take a share of
            the sites, so that the last version alone is scored at all of them.
    """
    if rule not in RULES:
        raise Misconfigured(f"results: reported round {rule!r} is not a rule", hint=f"one of: {', '.join(RULES)}")
    if rule == VALIDATED:
        _require_choice(histories)


def _require_choice(histories: Sequence[History]) -> None:
    if not any(
        scored(record, point, VALIDATION)
        for history in histories
        for record in history.rounds
        for point in (RECEIVED, TUNED)
    ):
        raise Misconfigured(
            "results: the reported round cannot be chosen by validation: no site has validation records",
            hint="keep a share of the training records for validation, or report the last round",
        )
    if any(history.complete and len(record.sites) < len(history.rounds[-1].sites)
           for history in histories for record in history.rounds):  # fmt: skip
        raise Misconfigured(
            "results: the reported round cannot be chosen by validation: rounds take a share of the sites, and only "
            "the last version is scored at all of them",
            hint="report the last round",
        )
