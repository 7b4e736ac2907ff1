"""Whole numbers in proportion, and stratified draws, by hand."""

import numpy as np
import pytest

from secureproto.simulation.partition.apportion import apportion, hold_back, thin_out


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("total", "weights", "shares"),
    [
        (10, [1, 1, 1], [4, 3, 3]),
        (10, [5, 3, 2], [5, 3, 2]),
        (7, [10, 20, 33], [1, 2, 4]),  # quotas 1.11, 2.22, 3.67
        (100, [1, 0, 2], [33, 0, 67]),
        (0, [1, 2], [0, 0]),
        (3, [0, 0], [2, 1]),
    ],
)
def test_shares_by_hand(total: int, weights: list[int], shares: list[int]) -> None:
    assert apportion(total, ints(*weights)).tolist() == shares


def test_bounds_come_before_proportions() -> None:
    assert apportion(10, ints(98, 1, 1), lower=ints(0, 1, 1)).tolist() == [8, 1, 1]
    assert apportion(10, ints(98, 1, 1), upper=ints(4, 9, 9)).tolist() == [4, 3, 3]
    assert apportion(10, ints(1, 1), upper=ints(2, 3)).tolist() == [2, 3]
    assert apportion(1, ints(1, 1), lower=ints(2, 2)).tolist() == [2, 2]


def held_counts(counts: list[int], share: float, *, every_class: bool = False) -> list[int]:
    labels = np.repeat(np.arange(len(counts)), counts).astype(np.int64)
    halves = hold_back(np.arange(len(labels)), labels, share, np.random.default_rng(0), every_class=every_class)
    assert sorted([*halves.kept, *halves.held]) == list(range(len(labels)))
    return [int(n) for n in np.bincount(labels[halves.held], minlength=len(counts))]


@pytest.mark.parametrize(
    ("counts", "share", "held"),
    [
        ([50, 30, 20], 0.3, [15, 9, 6]),
        ([100, 2], 0.1, [10, 0]),  # quotas 9.80 and 0.20
        ([4, 4], 0.9, [3, 3]),  # a class keeps one
        ([9, 1], 0.2, [2, 0]),  # a class of one keeps it
        ([2, 2], 0.01, [1, 0]),  # one record at least is held back
        ([1], 0.5, [0]),  # of one record none
    ],
)
def test_a_share_by_hand(counts: list[int], share: float, held: list[int]) -> None:
    assert held_counts(counts, share) == held


def test_every_class_of_two_is_held_back_where_that_is_asked() -> None:
    assert held_counts([100, 2, 1], 0.1, every_class=True) == [9, 1, 0]
    assert held_counts([2, 2, 2], 0.1, every_class=True) == [1, 1, 1]


def test_classes_of_one_make_up_a_share_that_the_others_cannot() -> None:
    held = held_counts([1] * 10, 0.3)
    assert sum(held) == 3
    held = held_counts([2, *[1] * 8], 0.3)
    assert held[0] == 1
    assert sum(held) == 3


def test_which_classes_of_one_make_up_a_share_is_drawn() -> None:
    labels = np.arange(40, dtype=np.int64)
    draws = [hold_back(np.arange(40), labels, 0.3, np.random.default_rng(seed)).held for seed in (0, 0, 1)]
    assert draws[0].tolist() == draws[1].tolist()
    assert sorted(draws[0]) != sorted(draws[2])


def test_which_record_is_held_back_is_drawn() -> None:
    labels = np.zeros(100, dtype=np.int64)
    draws = [hold_back(np.arange(100), labels, 0.1, np.random.default_rng(seed)).held for seed in (0, 0, 1)]
    assert draws[0].tolist() == draws[1].tolist()
    assert sorted(draws[0]) != sorted(draws[2])


def test_thinning_keeps_proportions_and_classes() -> None:
    labels = np.repeat(np.arange(3), [60, 38, 2]).astype(np.int64)
    for count, kept in ((50, [30, 19, 1]), (10, [6, 3, 1]), (3, [1, 1, 1]), (2, [1, 1, 0]), (100, [60, 38, 2])):
        rows = thin_out(np.arange(100), labels, count, np.random.default_rng(0))
        assert np.bincount(labels[rows], minlength=3).tolist() == kept
        assert len(np.unique(rows)) == count


def test_which_records_of_a_class_stay_is_drawn() -> None:
    labels = np.repeat(np.arange(2), 50).astype(np.int64)
    draws = [thin_out(np.arange(100), labels, 20, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert draws[0].tolist() == draws[1].tolist()
    for label in (0, 1):
        first, second = (sorted(rows[labels[rows] == label]) for rows in (draws[0], draws[2]))
        assert first != second
