"""The factor of each record, and sums that a row without weight cannot spoil."""

import pytest
import torch

from secureproto.learning.private.clipping import (
    CLIP_MARGIN,
    factors,
    finite_rows,
    only,
    squared_norms,
    weighted_sum,
)

NAN, INF = float("nan"), float("inf")


def test_factors_clip_and_leave_out() -> None:
    squares = torch.tensor([4.0, 0.25, 0.0, NAN, INF, 1e70, 4.0], dtype=torch.float64)
    usable = torch.tensor([True] * 6 + [False])
    found = factors(squares, usable, 1.0)
    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx([0.5 * (1 - CLIP_MARGIN), 1, 1, 0, 0, 0, 0], rel=1e-6)


@pytest.mark.parametrize("bound", [1e-6, 1.0, 1e6])
def test_what_is_kept_is_within_the_bound_also_in_float32(bound: float) -> None:
    norms = torch.logspace(-8, 20, 2000, dtype=torch.float64)
    found = factors(norms.square(), torch.ones(2000, dtype=torch.bool), bound).double() * norms
    assert float(found.max()) <= bound
    assert float(found.max()) >= bound * (1 - 2 * CLIP_MARGIN)


def test_norms_of_tiny_and_huge_numbers_are_not_lost() -> None:
    rows = torch.tensor([[1e-30, 0.0], [1e30, 0.0]])
    assert squared_norms(rows).tolist() == pytest.approx([1e-60, 1e60], rel=1e-6)


def test_rows_are_finite_in_all_parts() -> None:
    first, second = torch.zeros(4, 2), torch.zeros(4)
    first[1, 1], second[2] = NAN, -INF
    assert finite_rows(first, second).tolist() == [True, False, False, True]


def test_a_row_without_weight_may_hold_anything() -> None:
    rows = torch.ones(3, 2, 2)
    rows[1] = NAN
    weights = torch.tensor([1.0, 0.0, 0.5])
    assert torch.equal(weighted_sum(weights, rows), torch.full((2, 2), 1.5))
    assert torch.equal(only(weights > 0, rows)[1], torch.zeros(2, 2))
