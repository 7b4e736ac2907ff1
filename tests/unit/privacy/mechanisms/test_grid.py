"""The grid: the bound on one record by hand, the clip, the guard, exact sums that refuse to wrap around."""

from fractions import Fraction
from math import inf, nan, sqrt

import numpy as np
import pytest

from secureproto.privacy.events import Gaussian
from secureproto.privacy.mechanisms import grid as module
from secureproto.privacy.mechanisms.grid import (
    STEPS_PER_RADIUS,
    PrototypeGrid,
    add_exactly,
    class_totals,
    clip_rows,
    rounded_rows,
)

GRID = PrototypeGrid(classes=3, width=4, radius=2.0, count_weight=0.5, noise_multiplier=4.0)


def test_the_figures_of_a_release_by_hand() -> None:
    step = 2.0 / 2**20
    assert GRID.step == step
    assert GRID.count_steps == 2**18
    assert GRID.sensitivity == pytest.approx(sqrt(4.25) + step * sqrt(5) / 2, rel=1e-15)
    assert GRID.noise_steps == pytest.approx(4 * GRID.sensitivity / step, rel=1e-15)
    assert GRID.sum_noise == pytest.approx(4 * GRID.sensitivity, rel=1e-15)
    assert GRID.count_noise == pytest.approx(4 * GRID.sensitivity / 0.5, rel=1e-15)
    assert GRID.longest == pytest.approx(2 + step, rel=1e-15)
    assert GRID.event == Gaussian(4.0)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": 0},
        {"classes": 2**16 + 1},
        {"width": 0},
        {"radius": 0.0},
        {"radius": nan},
        {"radius": 1e7},
        {"count_weight": 0.0},
        {"count_weight": -1.0},
        {"count_weight": inf},
        {"count_weight": 1e6},
        {"noise_multiplier": 0.0},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": inf},
        {"noise_multiplier": nan},
    ],
)
def test_impossible_parameters_are_refused(change: dict[str, float]) -> None:
    right = {"classes": 3, "width": 4, "radius": 2.0, "count_weight": 0.5, "noise_multiplier": 4.0}
    with pytest.raises(ValueError, match=r"radius|classes|count|noise"):
        PrototypeGrid(**{**right, **change})  # type: ignore[arg-type]  # built from a table


def test_clipping_keeps_what_is_within_and_shortens_what_is_not() -> None:
    rows = np.array([[0.6, 0.8], [3.0, 4.0], [0.0, 0.0], [1e308, 1e308], [1e-320, 0.0], [-0.3, 0.4]])
    clipped = clip_rows(rows, 1.0)
    assert clipped[[0, 2, 4, 5]].tolist() == rows[[0, 2, 4, 5]].tolist()
    np.testing.assert_allclose(clipped[1], [0.6, 0.8], rtol=1e-15)
    np.testing.assert_allclose(clipped[3], [sqrt(0.5)] * 2, rtol=1e-15)


def test_one_records_row_does_not_depend_on_the_others() -> None:
    rows = np.random.default_rng(3).normal(size=(50, 4)) * 3
    rows[7, 1], rows[8, 2], rows[9] = nan, -inf, 1e300
    together, good = rounded_rows(rows, GRID)
    assert np.flatnonzero(~good).tolist() == [7, 8]
    assert not together[[7, 8]].any()
    for i, row in enumerate(rows):
        assert (rounded_rows(row[None], GRID)[0][0] == together[i]).all()


def test_the_guard_stands_behind_the_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(embeddings: module.F64, radius: float) -> module.F64:
        return embeddings

    monkeypatch.setattr(module, "clip_rows", broken)
    rows, good = rounded_rows(np.array([[2.0, 0, 0, 0], [2.0, 0.01, 0, 0], [1.0, 1.0, 1.0, 1.01]]), GRID)
    assert good.tolist() == [True, False, False]
    assert not rows[1:].any()


def test_a_row_may_be_as_long_as_the_bound_says_and_no_longer() -> None:
    # a row on the sphere whose entries all round outwards comes nearest to it
    entry = 1.0 - 0.4 * GRID.step
    rows, good = rounded_rows(np.full((1, 4), entry), GRID)
    assert good.all()
    assert rows[0].tolist() == [STEPS_PER_RADIUS // 2] * 4 + [2**18]
    assert int((rows[0] ** 2).sum()) <= Fraction(GRID.sensitivity_steps) ** 2


def test_sums_beyond_64_bits_are_refused_and_those_within_are_exact() -> None:
    top = np.iinfo(np.int64).max
    assert add_exactly(np.array([top - 1, -top, 5]), np.array([1, -1, -7])).tolist() == [top, -top - 1, -2]
    for left, right in ((top, 1), (-top, -2), (2**62, 2**62)):
        with pytest.raises(ValueError, match="64-bit"):
            add_exactly(np.array([left]), np.array([right]))
    with pytest.raises(ValueError, match="64-bit"):
        class_totals(np.array([[2**62], [2**62]]), np.array([0, 0]), 1)


def test_rows_go_to_their_class_and_others_to_none() -> None:
    rows = np.array([[1, 2], [3, 4], [5, 6], [7, 8]])
    assert class_totals(rows, np.array([2, 0, 2, -1]), 3).tolist() == [[3, 4], [0, 0], [6, 8]]
    assert class_totals(rows[:0], np.array([], dtype=np.int64), 2).tolist() == [[0, 0], [0, 0]]
