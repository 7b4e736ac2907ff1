"""Intervals by hand and against slow oracles, how often they hold the truth, and what is said where there is none."""

from math import gamma, pi, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secureproto.learning.evaluate import score
from secureproto.simulation import statistics
from secureproto.simulation.statistics import (
    F64,
    MEASURES,
    Interval,
    Measure,
    bootstrap_difference,
    bootstrap_score,
    paired,
)

DIFFERENCES = st.lists(st.floats(-0.1, 0.1, allow_nan=False), min_size=3, max_size=8)  # far from −1 and 1


def test_the_interval_of_three_seeds_by_hand() -> None:
    found = paired([0.01, 0.02, 0.03])
    half = 4.302652729749464 * 0.01 / sqrt(3)  # t(0.975, 2), s = 0.01
    assert found.mean == pytest.approx(0.02)
    assert [found.low, found.high] == pytest.approx([0.02 - half, 0.02 + half])
    assert (found.level, found.n, found.sign) == (0.95, 3, 0)


def test_splits_drawn_anew_widen_it_as_nadeau_and_bengio_say() -> None:
    plain, corrected = paired([0.01, 0.02, 0.03]), paired([0.01, 0.02, 0.03], redrawn=0.3 / 0.7)
    assert plain.high is not None
    assert corrected.high is not None
    wider = (corrected.high - 0.02) / (plain.high - 0.02)
    assert wider == pytest.approx(sqrt((1 / 3 + 3 / 7) / (1 / 3)))


@pytest.mark.parametrize("k", [3, 5, 30])
def test_the_quantile_is_students(k: int) -> None:
    values = np.linspace(-0.1, 0.1, k)
    found = paired(values.tolist())
    assert found.high is not None
    quantile = found.high / (values.std(ddof=1) / sqrt(k))
    assert _student_cdf(quantile, k - 1) == pytest.approx(0.975, abs=2e-5)


def _student_cdf(t: float, freedom: int) -> float:
    """1/2 and the integral of the density from 0 to t."""
    x = np.linspace(0, t, 20_001)
    constant = gamma((freedom + 1) / 2) / (sqrt(freedom * pi) * gamma(freedom / 2))
    density = constant * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    return 0.5 + float(np.trapezoid(density, x))


@pytest.mark.parametrize(
    "differences", [[0.03], [0.03, 0.03], [0.02, 0.04], [0.03, 0.03, 0.03], [-0.3, -0.1 - 0.2, -0.3]]
)
def test_fewer_than_three_seeds_have_no_interval_nor_has_one_difference_that_is_always_the_same(
    differences: list[float],
) -> None:
    mean = pytest.approx(differences[0] if len(differences) != 2 else 0.03)
    assert paired(differences) == Interval(mean, None, None, 0.95, len(differences))  # type: ignore[arg-type]
    assert paired(differences).sign == 0


def test_no_difference_in_any_seed_is_an_interval_without_width() -> None:
    assert paired([0.0, 0.0, 0.0]) == Interval(0.0, 0.0, 0.0, 0.95, 3)


def test_an_interval_ends_where_differences_do() -> None:
    found = paired([-0.9, 0.9, 0.0], redrawn=0.5)
    assert (found.low, found.high) == (-1.0, 1.0)
    assert paired([0.03], redrawn=0.5).sign == 0


def test_the_sign_is_that_of_the_whole_interval() -> None:
    signs = [
        paired(differences).sign
        for differences in ([0.1, 0.11, 0.1], [-0.1, -0.11, -0.1], [0.1, -0.11, 0.1], [0.0, 0.0, 0.0])
    ]
    assert signs == [1, -1, 0, 0]


@pytest.mark.parametrize("differences", [[], [float("nan"), 0.1], [float("inf")]])
def test_differences_that_are_none_are_refused(differences: list[float]) -> None:
    with pytest.raises(ValueError, match="finite differences"):
        paired(differences)


@pytest.mark.parametrize("ratio", [0.0, -0.1, float("nan")])
def test_a_ratio_that_is_none_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="over 0"):
        paired([0.1, 0.2], redrawn=ratio)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    numbers = np.random.default_rng(1)
    intervals = [paired((0.02 + 0.05 * numbers.normal(size=5)).tolist()) for _ in range(3000)]
    assert _held(intervals, 0.02) == pytest.approx(0.95, abs=0.015)


def test_without_the_correction_overlapping_splits_promise_too_much() -> None:
    """Differences of splits that share 70 % of the records are correlated by n_test / n = 0.3."""
    numbers, share = np.random.default_rng(2), 0.3
    together = sqrt(share) * numbers.normal(size=(3000, 1)) + sqrt(1 - share) * numbers.normal(size=(3000, 10))
    plain = [paired(row.tolist()) for row in together]
    corrected = [paired(row.tolist(), redrawn=share / (1 - share)) for row in together]
    assert _held(plain, 0.0) < 0.75
    assert _held(corrected, 0.0) == pytest.approx(0.95, abs=0.015)


def _held(intervals: list[Interval], truth: float) -> float:
    return float(np.mean([i.low is not None and i.high is not None and i.low <= truth <= i.high for i in intervals]))


@given(differences=DIFFERENCES, shift=st.floats(-0.1, 0.1), ratio=st.one_of(st.none(), st.floats(0.05, 2)))
def test_the_interval_moves_with_the_differences(differences: list[float], shift: float, ratio: float | None) -> None:
    assume(max(differences) - min(differences) > 1e-6)
    here, there = paired(differences, redrawn=ratio), paired([d + shift for d in differences], redrawn=ratio)
    back = paired([-d for d in differences], redrawn=ratio)
    assert here.low is not None
    assert here.high is not None
    assert here.low <= here.mean <= here.high
    assert there.low == pytest.approx(here.low + shift, abs=1e-12)
    assert [back.low, back.high] == pytest.approx([-here.high, -here.low], abs=1e-12)


def records(n: int, classes: int, seed: int) -> tuple[NDArray[np.int64], F64, F64]:
    """Labels and two models' probabilities, all of them tenths so that many are equal."""
    numbers = np.random.default_rng(seed)
    y = numbers.integers(classes, size=n)
    first, second = (numbers.multinomial(10, np.ones(classes) / classes, size=n) / 10 for _ in range(2))
    return y, first, second


@pytest.mark.parametrize("measure", MEASURES)
# of few records draws miss a class: the score is another one there, so they are left out
@pytest.mark.parametrize(("n", "classes"), [(25, 2), (25, 3), (6, 2), (8, 3)])
def test_the_bootstrap_against_scoring_each_draw(
    measure: Measure, n: int, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 40)
    y, first, second = records(n, classes, 3)
    found = bootstrap_difference(y, first, second, measure, generator=np.random.default_rng(4))
    one = bootstrap_score(y, first, measure, generator=np.random.default_rng(4))
    drawn = np.random.default_rng(4).integers(n, size=(40, n))
    scores = [(getattr(score(y[r], first[r]), measure), getattr(score(y[r], second[r]), measure)) for r in drawn]
    whole = [measure == "accuracy" or set(y[r]) == set(y) for r in drawn]
    known = np.array([pair for pair, kept in zip(scores, whole, strict=True) if kept], dtype=np.float64)
    assert (len(known) < 40) is (measure != "accuracy" and n < 10)
    assert found is not None
    assert one is not None
    expected = np.quantile(known[:, 0] - known[:, 1], [0.025, 0.975])
    assert [found.low, found.high] == pytest.approx(expected.tolist(), abs=1e-12)
    assert [one.low, one.high] == pytest.approx(np.quantile(known[:, 0], [0.025, 0.975]).tolist(), abs=1e-12)
    assert one.mean == pytest.approx(getattr(score(y, first), measure), abs=1e-12)
    assert found.mean == pytest.approx(one.mean - getattr(score(y, second), measure), abs=1e-12)
    assert found.n == n


@pytest.mark.parametrize("measure", ["balanced_accuracy", "auc"])
def test_no_interval_where_most_draws_miss_a_class(measure: Measure) -> None:
    y = np.array([0, 1, 2, 3, 3, 3, 3, 3])  # three classes of one record: a draw has all of them in under one in five
    certain = np.eye(4)[y] * 0.7 + 0.1
    found = bootstrap_score(y, certain, measure, generator=np.random.default_rng(0))
    assert found is not None
    assert (found.mean, found.low, found.high) == (1.0, None, None)


def test_blocks_of_draws_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    y, first, second = records(40, 2, 5)
    whole = bootstrap_difference(y, first, second, "auc", generator=np.random.default_rng(6))
    monkeypatch.setattr(statistics, "_BLOCK", 1111)
    assert bootstrap_difference(y, first, second, "auc", generator=np.random.default_rng(6)) == whole


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), measure=st.sampled_from(MEASURES))
def test_a_difference_turns_with_its_models(seed: int, measure: Measure) -> None:
    y, first, second = records(12, 2, seed)
    there = bootstrap_difference(y, first, second, measure, generator=np.random.default_rng(seed))
    back = bootstrap_difference(y, second, first, measure, generator=np.random.default_rng(seed))
    same = bootstrap_difference(y, first, first, measure, generator=np.random.default_rng(seed))
    if there is None:
        assert len(set(y.tolist())) == 1
        assert measure == "auc"
        return
    assert back is not None
    assert there.low is not None
    assert there.high is not None
    assert [back.low, back.high] == pytest.approx([-there.high, -there.low], abs=1e-12)
    assert same == Interval(0.0, 0.0, 0.0, 0.95, 12)


def test_the_bootstrap_holds_the_truth_about_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    numbers = np.random.default_rng(7)
    intervals = []
    for _ in range(300):
        right = numbers.random(80) < 0.8
        probabilities = np.stack([right, ~right], axis=1).astype(np.float64)
        found = bootstrap_score(np.zeros(80, dtype=np.int64), probabilities, "accuracy", generator=numbers)
        assert found is not None
        intervals.append(found)
    assert 0.89 <= _held(intervals, 0.8) <= 0.98


def test_a_score_that_is_not_defined_has_no_interval() -> None:
    y, probabilities = np.zeros(5, dtype=np.int64), np.full((5, 2), 0.5)
    assert bootstrap_score(y, probabilities, "auc", generator=np.random.default_rng(0)) is None
    assert bootstrap_score(y, probabilities, "accuracy", generator=np.random.default_rng(0)) is not None
    assert bootstrap_score(y[:0], probabilities[:0], "accuracy", generator=np.random.default_rng(0)) is None
    three = np.full((5, 3), 1 / 3)
    assert bootstrap_score(y, three, "auc", generator=np.random.default_rng(0)) is None
    some = bootstrap_score(np.array([0, 1, 1, 0, 1]), three, "auc", generator=np.random.default_rng(0))
    assert some is not None  # over the two classes that occur
    assert some.mean == 0.5


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="a prediction for each record"):
        bootstrap_score(np.zeros(5, dtype=np.int64), np.full((4, 2), 0.5), "auc", generator=np.random.default_rng(0))
