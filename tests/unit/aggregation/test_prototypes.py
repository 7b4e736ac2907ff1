"""Global prototypes: weighting, holders, carry-forward."""

import numpy as np
import pytest

from secureproto.aggregation.prototypes import GlobalPrototypes, combine, local_means


def _sites(*rows: tuple[list[float], list[float]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Two classes of width 1: (means, counts) a site, as sums and counts."""
    return np.array([[[m * n, n] for m, n in zip(means, counts, strict=True)] for means, counts in rows])


def test_samples_weighs_by_records_and_uniform_by_sites() -> None:
    sites = _sites(([1.0, 5.0], [1, 2]), ([4.0, 7.0], [2, 2]))
    start = GlobalPrototypes.absent(2, 1)
    samples = combine(sites, start, weighting="samples", min_holders=2)
    uniform = combine(sites, start, weighting="uniform", min_holders=2)
    assert samples.values.tolist() == [[3.0], [6.0]]
    assert uniform.values.tolist() == [[2.5], [6.0]]


def test_uniform_counts_holders_only() -> None:
    sites = _sites(([1.0, 0.0], [3, 0]), ([4.0, 2.0], [1, 1]), ([0.0, 4.0], [0, 9]))
    found = combine(sites, GlobalPrototypes.absent(2, 1), weighting="uniform", min_holders=2)
    assert found.values.tolist() == [[2.5], [3.0]]


def test_a_class_with_one_holder_is_not_renewed() -> None:
    sites = _sites(([1.0, 5.0], [1, 2]), ([4.0, 0.0], [2, 0]))
    absent = combine(sites, GlobalPrototypes.absent(2, 1), weighting="samples", min_holders=2)
    assert absent.present.tolist() == [True, False]
    assert absent.age.tolist() == [0, -1]
    assert absent.values[1].tolist() == [0.0]
    before = GlobalPrototypes(np.array([[9.0], [8.0]]), np.array([3, 6]))
    carried = combine(sites, before, weighting="samples", min_holders=2)
    assert carried.values.tolist() == [[3.0], [8.0]]
    assert carried.age.tolist() == [0, 7]
    assert before.values.tolist() == [[9.0], [8.0]], "the version before is left as it was"


def test_with_min_holders_one_a_single_holder_renews() -> None:
    found = combine(_sites(([1.0, 5.0], [1, 0])), GlobalPrototypes.absent(2, 1), weighting="samples", min_holders=1)
    assert found.age.tolist() == [0, -1]


def test_local_means_of_a_class_not_held_are_zero() -> None:
    assert local_means(_sites(([3.0, 0.0], [2, 0]))).tolist() == [[[3.0], [0.0]]]


@pytest.mark.parametrize(
    ("values", "age"),
    [(np.zeros((2, 1)), np.zeros(3, dtype=np.int64)), (np.zeros((2, 1)), np.array([0, -2]))],
)
def test_prototypes_that_cannot_be_are_refused(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], age: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    with pytest.raises(ValueError, match=r"prototypes|age"):
        GlobalPrototypes(values, age)


def test_misuse_is_refused() -> None:
    start = GlobalPrototypes.absent(2, 1)
    with pytest.raises(ValueError, match="class sums"):
        combine(np.zeros((1, 3, 2)), start, weighting="samples", min_holders=1)
    with pytest.raises(ValueError, match="class sums"):
        combine(np.zeros((0, 2, 2)), start, weighting="samples", min_holders=1)
    with pytest.raises(ValueError, match="min_holders"):
        combine(np.zeros((1, 2, 2)), start, weighting="samples", min_holders=0)
