"""When a study stops: after its agreed rounds, or (when the study asks for it) when the loss has converged.

Source: METHOD "A round", step 6. The loss watched is the one the federation minimises, Σ_i n_i L_i / Σ_i n_i over
the round's participants; no single site's loss decides or is kept. Off by default: a reported loss is a release.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class StopReason(StrEnum):
    """Why a study is over."""

    AGREED_ROUNDS = "agreed_rounds"
    CONVERGED = "converged"


@dataclass(frozen=True)
class StoppingRule:
    """`total`: agreed rounds. `relative_tolerance` None: the loss is not watched; else with `patience` >= 1.

    Raises:
        ValueError: impossible numbers.
    """

    total: int
    relative_tolerance: float | None = None
    patience: int = 1

    def __post_init__(self) -> None:
        if self.total < 1 or self.patience < 1:
            raise ValueError("total and patience are at least 1")
        if self.relative_tolerance is not None and not self.relative_tolerance > 0:
            raise ValueError("relative_tolerance is over 0, or None")


def converged(losses: Sequence[float], *, relative_tolerance: float, patience: int) -> bool:
    """Whether each of the last `patience` changes was at most `relative_tolerance` of the loss before it.

    `losses`: one a completed round, in order, all of them finite. Fewer than `patience + 1` never converge.
    """
    if len(losses) < patience + 1:
        return False
    tail = losses[-(patience + 1) :]
    return all(abs(after - before) <= relative_tolerance * abs(before) for before, after in pairwise(tail))


def decide(rule: StoppingRule, *, rounds_completed: int, losses: Sequence[float]) -> StopReason | None:
    """Why the study is over, or None when it goes on."""
    if rounds_completed >= rule.total:
        return StopReason.AGREED_ROUNDS
    if rule.relative_tolerance is None:
        return None
    if converged(losses, relative_tolerance=rule.relative_tolerance, patience=rule.patience):
        return StopReason.CONVERGED
    return None
