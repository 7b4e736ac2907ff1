"""Poisson sampling: each record on its own, with the rate, empty at times, and from no seed."""

import numpy as np
import pytest
import torch

from secureproto.learning.private import entropy
from secureproto.learning.private.sampler import PoissonSampler

DRAW = PoissonSampler().draw


def test_each_record_comes_with_the_rate_and_the_count_has_the_variance_of_independence() -> None:
    rate, records, steps = 0.1, 400, 2000
    drawn = np.zeros((steps, records))
    for row in drawn:
        row[DRAW(records, rate)] = 1
    one = np.sqrt(rate * (1 - rate) / steps)
    assert np.abs((drawn.mean(axis=0) - rate) / one).max() < 6
    assert abs(drawn.mean() - rate) < 6 * one / np.sqrt(records)
    counts = drawn.sum(axis=1)
    # a shuffled or fixed-size draw has a variance of 0; that of a variance estimate is about 2/steps of it
    assert counts.var() == pytest.approx(records * rate * (1 - rate), rel=6 * np.sqrt(2 / steps))


def test_rate_1_takes_all_and_a_tiny_rate_none() -> None:
    assert DRAW(50, 1.0).tolist() == list(range(50))
    assert [len(DRAW(5, 1e-12)) for _ in range(50)] == [0] * 50
    assert DRAW(0, 0.5).tolist() == []


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="sample rate"):
        DRAW(5, rate)


def test_the_chance_is_never_over_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = 2**-52 * 1.25  # between multiples of 2^-53
    monkeypatch.setattr(entropy, "integers", lambda count: np.arange(count, dtype=np.uint64))
    assert DRAW(10, rate).tolist() == [0, 1]


def test_no_seed_has_a_part_in_it() -> None:
    draws = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.default_rng(0)
        draws.append(DRAW(500, 0.5).tolist())
    assert draws[0] != draws[1]
