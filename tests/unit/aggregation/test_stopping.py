"""Both stopping rules."""

import pytest

from secureproto.aggregation.stopping import StoppingRule, StopReason, converged, decide


def test_the_agreed_rounds_end_a_study() -> None:
    rule = StoppingRule(total=3)
    assert decide(rule, rounds_completed=2, losses=[]) is None
    assert decide(rule, rounds_completed=3, losses=[]) is StopReason.AGREED_ROUNDS
    assert decide(rule, rounds_completed=4, losses=[]) is StopReason.AGREED_ROUNDS


def test_the_loss_is_not_watched_unless_asked_for() -> None:
    assert decide(StoppingRule(total=9), rounds_completed=5, losses=[1.0] * 5) is None
    rule = StoppingRule(total=9, relative_tolerance=0.01, patience=2)
    assert decide(rule, rounds_completed=5, losses=[1.0] * 5) is StopReason.CONVERGED
    assert decide(rule, rounds_completed=5, losses=[1.0, 0.5]) is None


@pytest.mark.parametrize(
    ("losses", "patience", "expected"),
    [
        ([], 1, False),
        ([1.0], 1, False),
        ([1.0, 1.005], 1, True),
        ([1.0, 0.9], 1, False),
        ([1.0, 0.9, 0.899], 2, False),
        ([1.0, 0.999, 0.998], 2, True),
        ([5.0, 1.0, 0.999, 0.998], 2, True),
        ([1.0, 0.999, 2.0, 2.001], 2, False),
        ([0.0, 0.0], 1, True),
        ([0.0, 0.1], 1, False),
        ([-1.0, -1.005], 1, True),
    ],
)
def test_converged_needs_every_one_of_the_last_changes_small(
    losses: list[float], patience: int, expected: bool
) -> None:
    assert converged(losses, relative_tolerance=0.01, patience=patience) is expected


@pytest.mark.parametrize(
    ("total", "relative_tolerance", "patience"), [(0, None, 1), (1, 0.0, 1), (1, float("nan"), 1), (1, 0.1, 0)]
)
def test_impossible_rules_are_refused(total: int, relative_tolerance: float | None, patience: int) -> None:
    with pytest.raises(ValueError, match=r"total|tolerance"):
        StoppingRule(total=total, relative_tolerance=relative_tolerance, patience=patience)
