"""What the guarantee of DP-SGD hangs on: one record moves a clipped sum by at most C, and it is the right sum."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secureproto.learning.dataset import Records
from secureproto.learning.private.clipping import CLIP_MARGIN
from secureproto.learning.private.training import train_privately
from support.private_training import (
    SHAPES,
    loss_of,
    made,
    oracle_sum,
    plan,
    quiet,
    some_records,
    trained_vector,
    with_record,
)

MODELS = st.sampled_from(["mlp", "cnn"])
LOSSES = st.sampled_from(["plain", "aligned"])
WAYS = st.sampled_from(["ghost", "hooks"])
BOUNDS = st.sampled_from([0.01, 0.5, 1.0, 10.0])
BAD = ["nan", "inf", "one nan", "1e30", "class 9", "-1"]
HOSTILE = st.sampled_from([*BAD, "1e6", "outlier", "like others", "zeros"])


RATE = 1e5  # so large that the model is nothing beside the step, which then is the sum to 24 bits


def summed(name: str, loss: str, way: str, bound: float, data: Records) -> NDArray[np.float64]:
    """The clipped sum of all records, through the whole training: one step of rate 1 without noise."""
    model = made(name)
    before = trained_vector(model)
    training = plan(gradients=way, max_grad_norm=bound, expected_batch=1.0, learning_rate=RATE)
    train_privately(model, data, training=training, loss=loss_of(loss), sources=quiet())
    return (before - trained_vector(model)) / RATE


def hostile(kind: str, shape: tuple[int, ...], seed: int) -> tuple[NDArray[np.float32], int]:
    """One record of a kind."""
    x = some_records(1, shape, seed).x[0]
    values: dict[str, Any] = {"nan": np.nan, "inf": np.inf, "1e30": 1e30, "1e6": 1e6, "zeros": 0.0}
    if kind in values:
        x[:] = values[kind]
    elif kind == "one nan":
        x.reshape(-1)[0] = np.nan
    elif kind == "outlier":
        x *= 1000
    return x, {"class 9": 9, "-1": -1}.get(kind, seed % 3)


@settings(max_examples=30, deadline=None)
@given(MODELS, LOSSES, WAYS, BOUNDS, HOSTILE, st.integers(0, 40), st.integers(0, 10**6))
def test_one_record_moves_the_clipped_sum_by_at_most_the_bound(
    name: str, loss: str, way: str, bound: float, kind: str, others: int, seed: int
) -> None:
    data = some_records(others, SHAPES[name], seed)
    more = with_record(data, *hostile(kind, SHAPES[name], seed + 1), at=seed % (others + 1))
    moved = summed(name, loss, way, bound, more) - summed(name, loss, way, bound, data)
    assert np.isfinite(moved).all()
    assert np.linalg.norm(moved) <= bound * (1 + 1e-6)


@settings(max_examples=15, deadline=None)
@given(MODELS, LOSSES, BOUNDS, st.integers(1, 30), st.integers(0, 10**6))
def test_both_ways_are_one_record_after_the_other(name: str, loss: str, bound: float, count: int, seed: int) -> None:
    data = some_records(count, SHAPES[name], seed)
    expected = oracle_sum(made(name), loss_of(loss), data, bound)
    ghost, hooks = (summed(name, loss, way, bound, data) for way in ("ghost", "hooks"))
    scale = max(float(np.linalg.norm(expected)), bound)
    assert np.linalg.norm(ghost - hooks) <= 1e-5 * scale
    assert np.linalg.norm(ghost - expected) <= 3 * CLIP_MARGIN * scale


@settings(max_examples=12, deadline=None)
@given(MODELS, LOSSES, WAYS, st.sampled_from(BAD), st.integers(0, 30))
def test_a_bad_record_adds_nothing_and_leaves_the_others(
    name: str, loss: str, way: str, kind: str, others: int
) -> None:
    data = some_records(others, SHAPES[name])
    more = with_record(data, *hostile(kind, SHAPES[name], 5), at=others // 2)
    difference = summed(name, loss, way, 1.0, more) - summed(name, loss, way, 1.0, data)
    assert np.linalg.norm(difference) <= 1e-6


@pytest.mark.parametrize("way", ["ghost", "hooks"])
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_a_record_alone_is_clipped_to_the_bound_and_not_below(name: str, way: str) -> None:
    """A sum of zeros would pass all of the above."""
    data = some_records(1, SHAPES[name])
    assert np.linalg.norm(summed(name, "aligned", way, 0.01, data)) == pytest.approx(0.01, rel=2 * CLIP_MARGIN)
    unclipped = np.linalg.norm(oracle_sum(made(name), loss_of("aligned"), data, 1e9))
    assert np.linalg.norm(summed(name, "aligned", way, 1e5, data)) == pytest.approx(unclipped, rel=1e-4)
