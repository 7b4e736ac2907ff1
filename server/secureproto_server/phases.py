"""The life of a round: phases, legal moves, and what time and counts decide. Pure: no clock, no store.

    invite ──▶ collect ──▶ aggregate ──▶ publish ──▶ completed
      │  │       │  │         │  │
      │  └───────┼──┴─────────┼──┴─────▶ aborted          an operator's decision
      └──────────┴────────────┴────────▶ quorum_missed    too few sites

Rules, each a property in the tests:
1. A phase never comes back; an end is final. From `publish` a round can only complete: what may have been seen
   cannot be taken back.
2. At the deadline no new upload begins; one that began may finish within the grace. After deadline + grace the
   round leaves `collect`, whatever happens: it never hangs.
3. It leaves `collect` early when every invited site has answered, or when too few remain for the quorum.
4. It is aggregated only with a quorum of uploads; sites dropped meanwhile (revoked, withdrawn) do not count.
"""

from dataclasses import dataclass
from enum import StrEnum

from secureproto.errors import Conflict


class Phase(StrEnum):
    """Where a round is."""

    INVITE = "invite"
    COLLECT = "collect"
    AGGREGATE = "aggregate"
    PUBLISH = "publish"
    COMPLETED = "completed"
    QUORUM_MISSED = "quorum_missed"
    ABORTED = "aborted"


ENDS = frozenset({Phase.COMPLETED, Phase.QUORUM_MISSED, Phase.ABORTED})

MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.INVITE: frozenset({Phase.COLLECT, Phase.QUORUM_MISSED, Phase.ABORTED}),
    Phase.COLLECT: frozenset({Phase.AGGREGATE, Phase.QUORUM_MISSED, Phase.ABORTED}),
    Phase.AGGREGATE: frozenset({Phase.PUBLISH, Phase.QUORUM_MISSED, Phase.ABORTED}),
    Phase.PUBLISH: frozenset({Phase.COMPLETED}),
    **{end: frozenset() for end in ENDS},
}


@dataclass(frozen=True)
class Tally:
    """Sites of a round by what they did. `uploading` are those among `invited` whose upload has begun."""

    invited: int = 0
    submitted: int = 0
    declined: int = 0
    dropped: int = 0
    uploading: int = 0

    def __post_init__(self) -> None:
        counts = (self.invited, self.submitted, self.declined, self.dropped, self.uploading)
        if min(counts) < 0 or self.uploading > self.invited:
            raise ValueError(f"impossible counts of sites: {counts}")


@dataclass(frozen=True)
class Rules:
    """What was fixed when the round opened. `deadline` is a time, `grace` a duration, both in whole seconds."""

    quorum: int
    deadline: int
    grace: int

    def __post_init__(self) -> None:
        if self.quorum < 1 or self.grace < 0:
            raise ValueError("a quorum is at least 1, a grace at least 0")


def require_move(current: Phase, following: Phase) -> None:
    """Refuse a move the diagram does not have.

    Raises:
        Conflict: the round is elsewhere, or at its end.
    """
    if following not in MOVES[current]:
        raise Conflict(f"a round in phase {current} cannot become {following}")


def decide(phase: Phase, rules: Rules, tally: Tally, *, now: float) -> Phase:
    """The phase that time and counts demand now; `phase` itself while there is nothing to do but wait or work.

    `aggregate` and `publish` are left by finishing the work (`require_move`), not by this function, except that
    an aggregation whose uploads no longer make a quorum ends.
    """
    match phase:
        case Phase.INVITE:
            return Phase.COLLECT if tally.invited + tally.submitted >= rules.quorum else Phase.QUORUM_MISSED
        case Phase.COLLECT:
            return _decide_collect(rules, tally, now)
        case Phase.AGGREGATE if tally.submitted < rules.quorum:
            return Phase.QUORUM_MISSED
        case _:
            return phase


def accepts_upload(phase: Phase, rules: Rules, *, now: float) -> bool:
    """Whether a new upload may begin."""
    return phase is Phase.COLLECT and now < rules.deadline


def accepts_body(phase: Phase, rules: Rules, *, now: float) -> bool:
    """Whether an upload that began may go on and finish."""
    return phase is Phase.COLLECT and now < rules.deadline + rules.grace


def _decide_collect(rules: Rules, tally: Tally, now: float) -> Phase:
    enough = tally.submitted >= rules.quorum
    reachable = tally.submitted + tally.invited >= rules.quorum
    over = now >= rules.deadline + rules.grace or (now >= rules.deadline and tally.uploading == 0)
    if tally.invited == 0 or over:
        return Phase.AGGREGATE if enough else Phase.QUORUM_MISSED
    return Phase.COLLECT if reachable else Phase.QUORUM_MISSED
