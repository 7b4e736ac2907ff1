"""What a person is told while a run goes on."""

from typing import Any

import pytest

from secureproto.simulation.experiment import with_rounds
from secureproto.simulation.history import RECEIVED
from secureproto.simulation.progress import Progress
from support.histories import record, scores
from support.learning import tabular_study

RUN = "1 of 2: fedavg, seed 0"


def told(seconds_a_round: float, numbers: range, total: int, *, choosing: bool = False, **study: Any) -> list[str]:
    """`numbers`: of the rounds that are done in this process; every tenth is scored, and the last."""
    said: list[str] = []
    now = [0.0]
    over = with_rounds(tabular_study(**study), total)
    progress = Progress(RUN, over, said.append, choosing=choosing, clock=lambda: now[0])
    for number in numbers:
        now[0] += seconds_a_round
        scored = number % 10 == 0 or number >= total - 1
        if number == total:
            progress.before_last()
        progress(record(number, {RECEIVED: scores({"a": 0.5, "b": 0.75})} if scored else {}))
    return said


def test_each_round_that_was_scored_is_told_with_its_mean() -> None:
    assert told(0.1, range(21), 20) == [
        f"{RUN}: round {number} of 20, accuracy as received 0.625" for number in (0, 10, 19, 20)
    ]


def test_where_something_may_be_chosen_test_scores_are_not_told() -> None:
    said: list[str] = []
    progress = Progress(RUN, with_rounds(tabular_study(), 20), said.append)
    progress(record(0, {RECEIVED: scores({"a": 0.5, "b": 0.75})}, validation={RECEIVED: scores({"b": 0.25})}))
    assert said == [f"{RUN}: round 0 of 20, validation accuracy as received 0.250"]


@pytest.mark.parametrize(
    ("seconds", "left"),
    [(6.5, "3 min"), (2.0, None), (240, "116 min"), (900, "7 h")],
)
def test_what_is_left_is_reckoned_from_the_rounds_that_were_seen(seconds: float, left: str | None) -> None:
    """Ten rounds were done before: the first round seen here is number 10 of 40."""
    (line,) = told(seconds, range(10, 11), 40)
    assert line.removeprefix(f"{RUN}: round 10 of 40, accuracy as received 0.625") == (
        "" if left is None else f"; the other 29 rounds take about {left}"
    )


def test_one_round_is_left_and_none() -> None:
    assert told(90, range(10, 11), 12)[0].endswith("; the other round takes about 2 min")
    assert [line.partition(";")[1] for line in told(1000, range(38, 41), 40)] == ["", ""]


def test_a_study_that_may_stop_early_is_not_told_how_long_it_takes() -> None:
    lines = told(1000, range(11), 40, stopping={"relative_tolerance": 0.1, "patience": 2})
    assert len(lines) == 2
    assert all("; the other" not in line for line in lines)


def test_the_wait_while_sites_choose_is_announced_once() -> None:
    lines = told(0.1, range(41), 40, choosing=True)
    announced = f"{RUN}: sites choose what they use now, at some 50 local trainings each"
    assert [line for line in lines if "choose" in line] == [announced]
    assert lines.index(announced) == len(lines) - 2  # after the last round that trains, before the scores after it
    assert not [line for line in told(0.1, range(41), 40) if "choose" in line]
