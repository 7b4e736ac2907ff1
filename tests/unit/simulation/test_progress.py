"""What a person is told while a run goes on."""

import pytest

from secureproto.simulation.history import RECEIVED
from secureproto.simulation.progress import Progress
from support.histories import record, scores


def told(seconds_a_round: float, numbers: range, total: int) -> list[str]:
    said: list[str] = []
    now = [0.0]
    progress = Progress("1 of 2: fedavg, seed 0", total, said.append, lambda: now[0])
    for number in numbers:
        now[0] += seconds_a_round
        progress(record(number, {RECEIVED: scores({"a": 0.5, "b": 0.75})} if number % 10 == 0 else {}))
    return said


def test_each_round_that_was_scored_is_told_with_its_mean() -> None:
    assert told(0.1, range(21), 20) == [
        f"1 of 2: fedavg, seed 0: round {number} of 20, accuracy as received 0.625" for number in (0, 10, 20)
    ]


@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        (6.5, "29 rounds take about 3 min"),
        (2.0, None),
        (240, "29 rounds take about 116 min"),
        (900, "29 rounds take about 7 h"),
    ],
)
def test_what_is_left_is_reckoned_from_the_rounds_that_were_seen(seconds: float, left: str | None) -> None:
    """30 rounds were done before: the first round seen here is number 10 of 40."""
    line = told(seconds, range(10, 11), 40)[0]
    assert line.removeprefix("1 of 2: fedavg, seed 0: round 10 of 40, accuracy as received 0.625") == (
        "" if left is None else f"; the other {left}"
    )


def test_nothing_is_left_after_the_last_round() -> None:
    assert all("; the other" not in line for line in told(1000, range(39, 41), 40)[-1:])
