"""How near noisy prototypes come to the true means: the design's own figures, at ε = 1 (δ 1e-5) over 50 rounds.

One class prototype of a site's 100 records, d = 64, mean embedding of norm 0.75 R. Every round: 50 releases of
σ_p 26.4. Every tenth: 5 releases of σ_p 8.34. Average: those five with the moving average 0.9.
"""

from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.aggregation.noisy import NoisyOptions, combine_noisy, decoded
from secureproto.aggregation.options import Options
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.privacy.mechanisms.grid import PrototypeGrid
from secureproto.privacy.mechanisms.prototypes import PrototypeSums
from secureproto.study.privacy import PrivatePrototypes

F64 = NDArray[np.float64]
WIDTH, RECORDS = 64, 100
CLASSES = 300  # independent repetitions, all at once


def noisy_of(noise: float, *, average: float = 0.0, classes: int = CLASSES) -> NoisyOptions:
    weight = PrivatePrototypes(noise_multiplier=noise).count_weight(WIDTH)
    grid = PrototypeGrid(classes, WIDTH, radius=1.0, count_weight=weight, noise_multiplier=noise)
    plain = Options(min_holders=1)
    return NoisyOptions(grid, plain, moving_average=average, shrinkage=0.0, holder_sigmas=0.0)


def means_of(numbers: np.random.Generator, classes: int) -> F64:
    means = np.abs(numbers.normal(size=(classes, WIDTH)))
    scaled: F64 = 0.75 * means / np.linalg.norm(means, axis=1, keepdims=True)
    return scaled


def cosine(found: GlobalPrototypes, means: F64) -> float:
    """Mean cosine of the prototypes there are with the true means."""
    values, true = found.values[found.present], means[found.present]
    products = (values * true).sum(axis=1)
    return float((products / np.linalg.norm(values, axis=1) / np.linalg.norm(true, axis=1)).mean())


def after(releases: int, noisy: NoisyOptions, *, sites: int) -> float:
    numbers = np.random.default_rng(sites)
    means = means_of(numbers, CLASSES)
    exact = np.column_stack([means * RECORDS / noisy.grid.step, np.full(CLASSES, RECORDS * noisy.grid.count_steps)])

    def release(previous: GlobalPrototypes, _: int) -> GlobalPrototypes:
        noise = numbers.normal(scale=noisy.grid.noise_steps, size=(sites, *exact.shape))
        return combine_noisy(decoded(np.rint(exact + noise), noisy.grid), previous, noisy).prototypes

    return cosine(reduce(release, range(releases), GlobalPrototypes.absent(CLASSES, WIDTH)), means)


@pytest.mark.parametrize(
    ("sites", "every_round", "every_tenth", "average"), [(1, 0.33, 0.74, 0.86), (10, 0.79, 0.97, 0.98)]
)
def test_cosines_to_the_true_mean(sites: int, every_round: float, every_tenth: float, average: float) -> None:
    # of ten sites 0.74 every round: 0.79 would be that of means of norm 0.9
    assert after(1, noisy_of(26.4), sites=sites) == pytest.approx(every_round, abs=0.06)
    assert after(1, noisy_of(8.34), sites=sites) == pytest.approx(every_tenth, abs=0.03)
    assert after(5, noisy_of(8.34, average=0.9), sites=sites) == pytest.approx(average, abs=0.03)


def test_the_whole_path_of_a_site_comes_as_near() -> None:
    numbers = np.random.default_rng(0)
    means = means_of(numbers, 12)
    noisy = noisy_of(8.34, average=0.9, classes=12)
    z = means.repeat(RECORDS, axis=0)
    z += numbers.normal(size=z.shape) * np.sqrt((1 - 0.75**2) / WIDTH)  # about on the unit sphere
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    y = np.arange(12).repeat(RECORDS)
    found = [GlobalPrototypes.absent(12, WIDTH)]
    for _ in range(5):
        sums = PrototypeSums(noisy.grid)
        sums.add(z, y)
        matrix = decoded(sums.release().matrix, noisy.grid)
        found.append(combine_noisy(matrix[None], found[-1], noisy).prototypes)
    assert cosine(found[1], means) == pytest.approx(0.74, abs=0.1)
    assert cosine(found[-1], means) == pytest.approx(0.86, abs=0.08)
