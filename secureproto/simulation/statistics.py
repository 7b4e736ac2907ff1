"""How far a difference between two methods can be trusted: intervals over seeds and over test records.

Invariants: what is compared is paired, by seed or by test record; an interval that cannot be had (two seeds, a class
that does not occur) is absent and never a guess; equal generators give equal intervals.
Sources: Student's t over seeds; where each seed splits the records anew, the variance of Nadeau and Bengio,
"Inference for the Generalization Error" (Machine Learning 52, 2003: the corrected resampled t-test); the percentile
bootstrap of Efron and Tibshirani, "An Introduction to the Bootstrap" (1993, chapter 13).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

F64 = NDArray[np.float64]
Measure = Literal["accuracy", "balanced_accuracy", "auc"]
MEASURES: tuple[Measure, ...] = get_args(Measure)

LEVEL = 0.95
FEWEST = 3  # seeds of an interval: of two one knows how far they lie apart and not how far a third would
RESAMPLES = 2000
_DIGITS = 12
SAME = 10.0**-_DIGITS  # scores are quotients of counts: what is less apart is rounding
_BLOCK = 4_000_000  # counts of resampled records held at once: 32 MB


@dataclass(frozen=True)
class Interval:
    """A value and the interval around it at `level`. `low` and `high` are None where there is none (`paired`,
    `bootstrap_score`).

    `n`: over how many seeds, or test records.
    """

    mean: float
    low: float | None
    high: float | None
    level: float
    n: int

    @property
    def sign(self) -> int:
        """1 or −1 where the whole interval lies on that side of zero; 0 where it holds zero or is not there."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)


def exact(mean: float) -> float:
    """A mean of scores without what the order of its sum makes of it: equal ones are equal."""
    return round(mean, _DIGITS)


def paired(differences: Sequence[float], *, redrawn: float | None = None) -> Interval:
    """Interval for the mean of one difference a seed: mean ± t √(v · s²), s² the sample variance over k seeds.

    v = 1/k where all seeds share their test records. With `redrawn`, the ratio n_test/n_train of splits that are
    drawn anew for each seed, v = 1/k + n_test/n_train: such splits overlap, so their differences are alike and s²
    is too small. No interval over fewer than FEWEST seeds, nor where all differ by the same, but not by 0: few test
    records agree by chance, and s² = 0 knows nothing of that. The interval ends at −1 and 1, as differences do.

    Raises:
        ValueError: no difference, one that is not finite, or a ratio that is not over 0.
    """
    if not differences or not all(map(isfinite, differences)):
        raise ValueError("an interval needs finite differences, one for each seed")
    if redrawn is not None and not (isfinite(redrawn) and redrawn > 0):
        raise ValueError("n_test/n_train is a number over 0")
    k = len(differences)
    values = np.asarray(differences, dtype=np.float64)
    mean = exact(float(values.mean()))
    if k < FEWEST or (np.ptp(values) < SAME and mean):
        return Interval(mean, None, None, LEVEL, k)
    half = exact(_quantile(k - 1) * sqrt(1 / k + (redrawn or 0.0)) * float(values.std(ddof=1)))
    return Interval(mean, max(mean - half, -1.0), min(mean + half, 1.0), LEVEL, k)


@lru_cache(maxsize=64)
def _quantile(freedom: int) -> float:
    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def bootstrap_score(
    y: NDArray[np.int64], probabilities: F64, measure: Measure, *, generator: np.random.Generator
) -> Interval | None:
    """Percentile interval of a score over draws of the test records with replacement; `n` of them, 2000 times.

    Args:
        y: (n,) true classes.
        probabilities: (n, C).

    Returns:
        None where the score is not defined: no records, or an AUC where fewer than two classes occur. A draw that
        misses one of the classes is left out for balanced accuracy and AUC, which would be over other classes there;
        where more than half of the draws are, there is no interval.
    """
    return _bootstrap(y, (probabilities,), measure, generator)


def bootstrap_difference(
    y: NDArray[np.int64], first: F64, second: F64, measure: Measure, *, generator: np.random.Generator
) -> Interval | None:
    """Percentile interval of the score of `first` minus that of `second` on the same records, drawn together.

    Shapes and result as `bootstrap_score`.
    """
    return _bootstrap(y, (first, second), measure, generator)


def _bootstrap(
    y: NDArray[np.int64], models: tuple[F64, ...], measure: Measure, generator: np.random.Generator
) -> Interval | None:
    if measure not in MEASURES:
        raise ValueError(f"no measure {measure!r}")
    if any(len(model) != len(y) for model in models):
        raise ValueError("a prediction for each record")
    if len(y) == 0:
        return None
    scores = [_SCORES[measure](y, model) for model in models]
    once = np.ones((len(y), 1))
    value = float(_difference([score(once) for score in scores])[0])
    if not isfinite(value):
        return None
    drawn = np.concatenate([_difference([score(w) for score in scores]) for w in _draws(len(y), generator)])
    known = drawn[np.isfinite(drawn)]
    if len(known) < RESAMPLES / 2:
        return Interval(value, None, None, LEVEL, len(y))
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high), LEVEL, len(y))


def _difference(parts: list[F64]) -> F64:
    return parts[0] if len(parts) == 1 else parts[0] - parts[1]


def _draws(n: int, generator: np.random.Generator) -> Iterator[F64]:
    """How often each record was drawn, (n, b) a block, RESAMPLES columns in all."""
    block = max(1, _BLOCK // n)
    for start in range(0, RESAMPLES, block):
        b = min(block, RESAMPLES - start)
        drawn = generator.integers(n, size=(b, n)) * b + np.arange(b)[:, None]
        yield np.bincount(drawn.ravel(), minlength=n * b).reshape(n, b).astype(np.float64)


# A score of n records as a function of how often each counts: (n, b) → (b,), NaN where it is not defined.
Score = Callable[[F64], F64]


def _accuracy(y: NDArray[np.int64], probabilities: F64) -> Score:
    right = (probabilities.argmax(axis=1) == y).astype(np.float64)
    return lambda w: right @ w / w.sum(axis=0)


def _balanced_accuracy(y: NDArray[np.int64], probabilities: F64) -> Score:
    right = probabilities.argmax(axis=1) == y
    members = (np.unique(y)[:, None] == y).astype(np.float64)

    def score(w: F64) -> F64:
        size = members @ w
        # a draw without one of the classes would be a mean over others: another measure, so it is left out
        recall = np.divide((members * right) @ w, size, out=np.full(size.shape, np.nan), where=size > 0)
        mean: F64 = recall.mean(axis=0)
        return mean

    return score


def _auc(y: NDArray[np.int64], probabilities: F64) -> Score:
    """As `learning.evaluate`: that of class 1 for two classes, for more the plain mean of one-vs-rest over those that
    occur; of a draw that misses one of them NaN."""
    classes = [1] if probabilities.shape[1] == 2 else np.unique(y).tolist()
    areas = [_area(y == j, probabilities[:, j]) for j in classes]

    def score(w: F64) -> F64:
        mean: F64 = np.stack([area(w) for area in areas]).mean(axis=0)
        return mean

    return score


def _area(positive: NDArray[np.bool_], value: F64) -> Score:
    """The share of (positive, negative) pairs in which the positive stands higher, equal ones counted half."""
    inside, outside = np.flatnonzero(positive), np.flatnonzero(~positive)
    outside = outside[np.argsort(value[outside], kind="stable")]
    under, upto = (np.searchsorted(value[outside], value[inside], side=side) for side in ("left", "right"))

    def score(w: F64) -> F64:
        mine = w[inside]
        below = np.zeros((len(outside) + 1, w.shape[1]))
        np.cumsum(w[outside], axis=0, out=below[1:])
        pairs = (mine * (below[under] + below[upto])).sum(axis=0) / 2
        possible = mine.sum(axis=0) * below[-1]
        area: F64 = np.divide(pairs, possible, out=np.full(w.shape[1], np.nan), where=possible > 0)
        return area

    return score


_SCORES: dict[Measure, Callable[[NDArray[np.int64], F64], Score]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "auc": _auc,
}
