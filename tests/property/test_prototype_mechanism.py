"""Properties of the prototype mechanism before its noise: what one record, however hostile, can change."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from secureproto.privacy.mechanisms.grid import I64, PrototypeGrid
from secureproto.privacy.mechanisms.prototypes import PrototypeSums, exact_sums

WIDTH = 5
RADII = st.one_of(st.sampled_from([1e-6, 0.1, 1.0, 3.0, 1e6]), st.floats(1e-6, 1e6))
RATIOS = st.floats(0.002, 500)
DTYPES = st.sampled_from([np.float64, np.float32, np.float16])
HOSTILE = st.one_of(
    st.floats(width=64),
    st.floats(-2, 2),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, 1e154, 1e-160, float("nan"), float("inf"), float("-inf")]),
)
CLASSES = st.one_of(st.integers(-3, 6).map(float), st.floats(), st.sampled_from([2.0**63, -(2.0**63), 0.5]))


@st.composite
def sites(draw: st.DrawFn) -> tuple[PrototypeGrid, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A grid, embeddings of any values and any floating-point dtype, and classes of any value."""
    radius = draw(RADII)
    grid = PrototypeGrid(draw(st.integers(1, 4)), WIDTH, radius, radius * draw(RATIOS), 1.0)
    count = draw(st.integers(1, 6))
    dtype = draw(DTYPES)
    with np.errstate(over="ignore"):
        z = draw(arrays.arrays(np.float64, (count, WIDTH), elements=HOSTILE, fill=st.nothing())).astype(dtype)
    if draw(st.booleans()):  # on the sphere of the clip and a hair beside it, where rounding decides
        with np.errstate(all="ignore"):
            z = (z / np.linalg.norm(z.astype(np.float64), axis=1, keepdims=True) * grid.radius).astype(dtype)
    y = np.array(draw(st.lists(CLASSES, min_size=count, max_size=count)))
    return grid, z, y


def _squares(row: I64) -> int:
    return sum(int(n) ** 2 for n in row)


@settings(max_examples=300)
@given(site=sites(), which=st.integers(0, 5))
def test_one_record_changes_one_row_by_at_most_the_sensitivity(
    site: tuple[PrototypeGrid, np.ndarray[Any, Any], np.ndarray[Any, Any]], which: int
) -> None:
    grid, z, y = site
    which %= len(z)
    with_it, bad = exact_sums(z, y, grid)
    without, bad_without = exact_sums(np.delete(z, which, axis=0), np.delete(y, which), grid)
    change = with_it - without
    rows = np.flatnonzero(change.any(axis=1))
    is_bad = bad - bad_without
    assert len(rows) == 1 - is_bad
    for row in rows:
        assert row == y[which]
        assert change[row, -1] == grid.count_steps
        assert _squares(change[row]) <= Fraction(grid.sensitivity_steps) ** 2


@given(site=sites(), order=st.randoms(use_true_random=False), cuts=st.lists(st.integers(0, 6), max_size=3))
def test_the_order_of_records_and_the_cuts_of_batches_change_no_bit(
    site: tuple[PrototypeGrid, np.ndarray[Any, Any], np.ndarray[Any, Any]], order: Any, cuts: list[int]
) -> None:
    grid, z, y = site
    whole, bad = exact_sums(z, y, grid)
    permutation = list(range(len(z)))
    order.shuffle(permutation)
    sums = PrototypeSums(grid)
    places = [0, *sorted(min(cut, len(z)) for cut in cuts), len(z)]
    for start, stop in pairwise(places):
        part = permutation[start:stop]
        sums.add(z[part], y[part])
    assert sums.bad_records == bad
    matrix = sums.release(without_noise_for_tests_only=True).matrix
    assert matrix.tobytes() == whole.astype(np.float64).tobytes()


@given(site=sites())
def test_a_good_record_is_itself_to_half_a_step(
    site: tuple[PrototypeGrid, np.ndarray[Any, Any], np.ndarray[Any, Any]],
) -> None:
    grid, z, y = site
    for row, label in zip(z.astype(np.float64), y, strict=True):
        found, bad = exact_sums(row[None], np.array([label]), grid)
        known = bool(np.isfinite(row).all()) and label in range(grid.classes)
        assert bad == (not known)
        if not known:
            assert not found.any()
            continue
        with np.errstate(over="ignore"):
            norm = np.linalg.norm(row)
        if norm <= grid.radius * (1 - 1e-9):
            assert (np.abs(found[int(label), :-1] * grid.step - row) <= grid.step * 0.5000001).all()
        elif np.isfinite(norm):
            np.testing.assert_allclose(
                found[int(label), :-1] * grid.step, row * (grid.radius / norm), atol=grid.step * 0.51
            )
