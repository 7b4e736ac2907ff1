"""Noisy class sums at the server: what is refused, prototypes by hand, weights, and no noise as the limit."""

from math import inf, log, nan, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.aggregation.noisy import (
    FALSE_REFUSAL,
    NoisyOptions,
    capped,
    carried,
    check_noisy,
    combine_noisy,
    decoded,
    extractor_weights,
    noisy_options,
    row_bound,
)
from secureproto.aggregation.options import Options
from secureproto.aggregation.prototypes import GlobalPrototypes, combine
from secureproto.errors import Rejected
from secureproto.privacy.mechanisms.grid import PrototypeGrid
from secureproto.privacy.mechanisms.prototypes import PrototypeSums
from secureproto.study.schema import StudyFile
from secureproto.wire.reasons import Reason
from support.learning import tabular_study

F64 = NDArray[np.float64]
NO_NOISE = 1e-12


def grid_of(noise: float, *, classes: int = 3, width: int = 4) -> PrototypeGrid:
    return PrototypeGrid(classes=classes, width=width, radius=1.0, count_weight=0.5, noise_multiplier=noise)


def options(noise: float = NO_NOISE, *, min_holders: int = 1, classes: int = 3, **changes: Any) -> NoisyOptions:
    plain = {"moving_average": 0.0, "shrinkage": 0.0}
    return NoisyOptions(grid_of(noise, classes=classes), Options(min_holders=min_holders), **{**plain, **changes})


def sums_of(seed: int, *, sites: int = 5, classes: int = 3, width: int = 4, empty: float = 0.3) -> F64:
    """Class sums and counts of embeddings of norm at most 1, (m, C, d+1)."""
    numbers = np.random.default_rng(seed)
    counts = numbers.integers(1, 61, (sites, classes)) * (numbers.random((sites, classes)) > empty)
    means = numbers.normal(size=(sites, classes, width))
    means /= np.maximum(np.linalg.norm(means, axis=2, keepdims=True), 1)
    return np.concatenate([means * counts[..., None], counts[..., None].astype(np.float64)], axis=2)


def release_of(grid: PrototypeGrid, means: F64, counts: list[int], numbers: np.random.Generator) -> F64:
    """What travels, with Gaussian noise of the release's width, from the mean embeddings (C, d) and counts (C,)."""
    rows = np.column_stack([means * np.array(counts)[:, None] / grid.step, np.array(counts) * grid.count_steps])
    return np.rint(rows + numbers.normal(scale=grid.noise_steps, size=rows.shape))


def test_a_release_is_decoded_to_the_methods_sums_and_counts() -> None:
    grid = PrototypeGrid(classes=3, width=4, radius=1.0, count_weight=0.4, noise_multiplier=1.0)  # no whole steps
    sums = PrototypeSums(grid)
    z = np.array([[0.6, 0.8, 0, 0], [0, 0, 1.0, 0], [0.1, 0.2, 0.3, 0.4]])
    sums.add(z, np.array([2, 2, 0]))
    found = decoded(sums.release(without_noise_for_tests_only=True).matrix, grid)
    expected = np.array([[0.1, 0.2, 0.3, 0.4, 1], [0, 0, 0, 0, 0], [0.6, 0.8, 1.0, 0, 2]])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[:, -1].tolist() == [1, 0, 2]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("min_holders", [1, 3])
def test_without_noise_prototypes_are_the_methods(seed: int, min_holders: int) -> None:
    sums = sums_of(seed)
    age = np.array([-1, 0, 4])
    previous = GlobalPrototypes(np.where(age[:, None] >= 0, 0.3, 0.0) * np.ones((3, 4)), age)
    expected = combine(sums, previous, weighting="samples", min_holders=min_holders)
    # the default shrinkage too: it is measured in noise
    found = combine_noisy(sums, previous, options(min_holders=min_holders, shrinkage=1.0))
    np.testing.assert_allclose(found.prototypes.values, expected.values, atol=1e-9)
    assert found.prototypes.age.tolist() == expected.age.tolist()
    assert found.renewed.tolist() == (expected.age == 0).tolist()
    assert found.holders.tolist() == (sums[:, :, -1] > 0).sum(axis=0).tolist()


def test_shrinkage_and_average_by_hand() -> None:
    noise = 2.0
    noisy = options(noise, classes=1, moving_average=0.75, shrinkage=3.0)
    sums = np.array([[[40.0, 0, 0, 0, 100]], [[80.0, 0, 0, 0, 100]]])
    previous = GlobalPrototypes(np.array([[0.0, 0.5, 0, 0]]), np.array([2]))
    pull = 3 * sqrt(2) * noisy.grid.count_noise
    estimate = np.array([120, pull * 0.5, 0, 0]) / (200 + pull)
    found = combine_noisy(sums, previous, noisy).prototypes
    np.testing.assert_allclose(found.values[0], 0.25 * estimate + 0.75 * previous.values[0], rtol=1e-12)
    assert found.age.tolist() == [0]
    first = combine_noisy(sums, GlobalPrototypes.absent(1, 4), noisy).prototypes
    np.testing.assert_allclose(first.values[0], [0.6, 0, 0, 0], rtol=1e-12)


def test_a_class_of_too_few_holders_or_of_nothing_but_noise_is_carried() -> None:
    noisy = options(4.0, min_holders=2)
    threshold = noisy.holder_threshold
    assert threshold == noisy.grid.count_noise
    over, under = threshold * 1.01, threshold * 0.99
    counts = np.array([[over, over, over], [over, under, over], [0, over * 0.3, -over]])
    sums = np.zeros((3, 3, 5))
    sums[:, :, -1] = counts
    sums[:, :, 0] = 1.0
    previous = GlobalPrototypes(np.full((3, 4), 0.1), np.array([0, 1, 5]))
    found = combine_noisy(sums, previous, noisy)
    assert found.holders.tolist() == [2, 1, 2]
    # the third has holders, but its total of one threshold is under √3 of them
    assert found.renewed.tolist() == [True, False, False]
    assert found.prototypes.age.tolist() == [0, 2, 6]
    assert (found.prototypes.values[1:] == previous.values[1:]).all()


def test_no_prototype_is_longer_than_an_embedding() -> None:
    sums = np.array([[[300.0, 400, 0, 0, 100]], [[0.0, 0, 0, 0, 100]]])
    found = combine_noisy(sums, GlobalPrototypes.absent(1, 4), options(classes=1))
    np.testing.assert_allclose(found.prototypes.values, [[0.6, 0.8, 0, 0]], atol=1e-5)


def test_carried_prototypes_are_a_round_older() -> None:
    after = carried(GlobalPrototypes(np.ones((3, 2)), np.array([-1, 0, 7])))
    assert after.age.tolist() == [-1, 1, 8]
    assert (after.values == 1).all()


def test_one_site_has_no_more_of_a_class_than_its_share() -> None:
    sums = np.zeros((4, 1, 5))
    sums[:, 0, -1] = [10, 10, 20, 1e9]
    sums[3, 0, 0] = 1e9  # pulls towards its own direction
    sums[:3, 0, 1] = [10, 10, 20]
    found = combine_noisy(sums, GlobalPrototypes.absent(1, 4), options(classes=1, max_weight_of_one_site=0.5))
    np.testing.assert_allclose(found.prototypes.values, [[0.5, 0.5, 0, 0]], atol=1e-6)


def test_a_cap_is_no_lower_than_what_a_holder_has() -> None:
    noisy = options(4.0, classes=1, max_weight_of_one_site=0.34)
    count = 2 * noisy.holder_threshold
    sums = np.zeros((3, 1, 5))
    sums[:, 0, -1] = [count, count, 1e-3]  # the least of them is noise, and no measure for the rest
    sums[:2, 0, 0] = count
    sums[2, 0, 0] = -0.5
    found = combine_noisy(sums, GlobalPrototypes.absent(1, 4), noisy)
    assert found.renewed.all()
    assert found.prototypes.values[0, 0] > 0.95


def test_capped_weights_by_hand() -> None:
    assert capped(np.array([1.0, 2.0, 3.0]), 1.0).tolist() == [1, 2, 3]
    np.testing.assert_allclose(capped(np.array([1.0, 1.0, 100.0]), 0.5), [1, 1, 2], rtol=1e-12)
    np.testing.assert_allclose(capped(np.array([1.0, 5.0, 100.0]), 0.1), [1, 1, 1], rtol=1e-12)
    np.testing.assert_allclose(capped(np.array([0.0, 5.0]), 0.1), [0, 5], rtol=1e-12)
    assert capped(np.zeros(3), 0.5).tolist() == [0, 0, 0]


def test_weights_are_equal_unless_every_count_is_over_its_noise() -> None:
    noisy = options(2.0)
    edge = 3 * sqrt(3) * noisy.grid.count_noise
    sums = np.zeros((3, 3, 5))
    sums[:, 0, -1] = [edge * 1.01, edge * 4, edge * 5]
    np.testing.assert_allclose(extractor_weights(sums, noisy), np.array([1.01, 4, 5]) / 10.01, rtol=1e-12)
    floor = options(2.0, weight_floor=2 * edge)
    np.testing.assert_allclose(extractor_weights(sums, floor), np.array([2, 4, 5]) / 11, rtol=1e-12)
    share = options(2.0, max_weight_of_one_site=0.4)
    found = extractor_weights(sums, share)
    assert found.max() <= 0.4 + 1e-12
    assert found.sum() == pytest.approx(1)
    sums[0, 0, -1] = edge * 0.99
    assert extractor_weights(sums, noisy).tolist() == [1 / 3] * 3


def test_without_noise_weights_are_the_methods() -> None:
    sums = sums_of(3, empty=0.2)
    records = sums[:, :, -1].sum(axis=1)
    np.testing.assert_allclose(extractor_weights(sums, options()), records / records.sum(), rtol=1e-12)


def test_an_honest_release_is_taken_and_the_bound_is_near_its_noise() -> None:
    grid, numbers = grid_of(3.0, classes=400, width=16), np.random.default_rng(0)
    directions = numbers.normal(size=(400, 16))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)  # of norm R: as long as a sum can be
    excess = []
    for count in (0, 1, 50, 3000):
        for _ in range(5):
            matrix = release_of(grid, directions, [count] * 400, numbers)
            check_noisy(matrix, grid, site="a")
            found = decoded(matrix, grid)
            excess.append(np.linalg.norm(found[:, :-1], axis=1) - grid.longest * found[:, -1])
    # 8,000 rows: the greatest comes near what Gaussian concentration allows at 1/8,000, and not near the bound
    rest = row_bound(grid) - grid.sum_noise * sqrt(16)
    allowed = grid.sum_noise * sqrt(16) + rest * sqrt(log(8000) / log(400 / FALSE_REFUSAL))
    assert 0.6 * allowed < np.max(excess) < 1.05 * allowed


@pytest.mark.parametrize(
    ("count", "length", "reason"),
    [
        (100, 100.0, None),
        (100, 135.0, None),
        (100, 140.0, Reason.NORM_BOUND),
        (-100, 0.0, Reason.NORM_BOUND),
        (-10, 0.0, None),
        (2**41, 0.0, Reason.SCHEMA),
    ],
)
def test_a_row_longer_than_its_records_allow_is_refused(count: int, length: float, reason: Reason | None) -> None:
    grid = grid_of(2.0)
    assert row_bound(grid) == pytest.approx(37.5, rel=1e-3)  # 2.236 · (2 + √5 · √(2 ln(3·10^9)))
    matrix = np.zeros((3, 5))
    matrix[1, 0], matrix[1, -1] = np.rint(length / grid.step), count * grid.count_steps
    if reason is None:
        check_noisy(matrix, grid, site="a")
        return
    with pytest.raises(Rejected) as refused:
        check_noisy(matrix, grid, site="hospital 7")
    assert refused.value.reason == reason
    assert "hospital 7" in refused.value.message
    assert str(count) not in refused.value.message


@pytest.mark.parametrize(
    ("value", "reason"),
    [(nan, Reason.NON_FINITE), (inf, Reason.NON_FINITE), (0.5, Reason.SCHEMA), (1e30, Reason.SCHEMA)],
)
def test_what_is_not_on_the_grid_is_refused(value: float, reason: Reason) -> None:
    matrix = np.zeros((3, 5))
    matrix[0, 2] = value
    with pytest.raises(Rejected) as refused:
        check_noisy(matrix, grid_of(2.0), site="a")
    assert refused.value.reason == reason


def test_a_matrix_of_another_shape_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="release"):
        check_noisy(np.zeros((3, 4)), grid_of(1.0), site="a")
    absent = GlobalPrototypes.absent(3, 4)
    with pytest.raises(ValueError, match="class sums"):
        combine_noisy(np.zeros((2, 2, 5)), absent, options())
    with pytest.raises(ValueError, match="class sums"):
        combine_noisy(np.zeros((0, 3, 5)), absent, options())
    with pytest.raises(ValueError, match="previous"):
        combine_noisy(np.zeros((2, 3, 5)), GlobalPrototypes.absent(2, 4), options())
    with pytest.raises(ValueError, match="m >= 1"):
        extractor_weights(np.zeros((0, 3, 5)), options())


@pytest.mark.parametrize(
    "change",
    [
        {"options": Options(representation="presence")},
        {"options": Options(weighting="uniform")},
        {"options": Options(normalisation="row_sum", form="linear")},
        {"moving_average": 1.0},
        {"moving_average": nan},
        {"shrinkage": -1.0},
        {"holder_sigmas": inf},
        {"weight_floor": nan},
        {"max_weight_of_one_site": 0.0},
        {"min_peers": 0},
    ],
)
def test_options_without_a_meaning_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"prior|linear|average|shrinkage|weight|peers"):
        NoisyOptions(**{"grid": grid_of(1.0), "options": Options(), **change})


def private_study(**sections: dict[str, Any]) -> StudyFile:
    privacy = {"max_epsilon_study": 8.0, "max_delta": 1e-5, "prototypes": {"noise_multiplier": 4.0}}
    table: dict[str, dict[str, Any]] = {"model": {"normalise_embedding": True}, "privacy": privacy, **sections}
    return tabular_study(4, 3, **table)


def test_a_private_study_has_the_stricter_defaults() -> None:
    found = noisy_options(private_study(), width=8, non_negative=True)
    assert (found.options.min_holders, found.options.max_peer_share) == (3, 0.5)
    assert (found.moving_average, found.non_negative, found.min_peers) == (0.9, True, 3)
    grid = found.grid
    assert (grid.classes, grid.width, grid.radius, grid.noise_multiplier) == (3, 8, 1.0, 4.0)
    assert grid.count_weight == pytest.approx(sqrt(0.75 / sqrt(8)))


def test_what_a_private_study_says_of_holders_and_shares_counts() -> None:
    study = private_study(prototypes={"min_holders": 2}, relation={"max_peer_share": 0.25})
    found = noisy_options(study, width=8, non_negative=False)
    assert (found.options.min_holders, found.options.max_peer_share) == (2, 0.25)


def test_a_study_without_privacy_has_none() -> None:
    with pytest.raises(ValueError, match="privacy"):
        noisy_options(tabular_study(), width=8, non_negative=True)
