"""The sampler: what it says of itself, its width, its speed, and that the continuous profile may stand for it."""

from math import erf, exp, inf, nan, sqrt
from time import process_time

import numpy as np
import pytest

from secureproto.privacy.mechanisms.discrete_gaussian import MIN_NOISE_STEPS, add_noise, concentrated_cost
from secureproto.privacy.mechanisms.grid import PrototypeGrid

GRID = PrototypeGrid(classes=10, width=64, radius=1.0, count_weight=0.3, noise_multiplier=8.34)
ZEROS = np.zeros((10, 65), dtype=np.int64)


def test_it_agrees_with_us_on_what_a_release_costs() -> None:
    cost = concentrated_cost(GRID.sensitivity_steps, GRID.noise_steps)
    assert cost == pytest.approx(1 / (2 * 8.34**2), rel=1e-12)


def test_a_matrix_keeps_its_shape_and_every_call_draws_anew() -> None:
    first, second = add_noise(ZEROS, GRID.noise_steps), add_noise(ZEROS, GRID.noise_steps)
    assert (first.shape, first.dtype) == ((10, 65), np.dtype(np.int64))
    assert (first != second).mean() > 0.99
    assert (first % 2).any()  # no coarser grid


def test_values_are_moved_by_the_noise_and_nothing_else() -> None:
    values = np.arange(650, dtype=np.int64).reshape(10, 65) * 10**12
    moved = add_noise(values, 2000.0) - values
    assert np.abs(moved).max() < 2000 * 8
    assert 1700 < moved.std() < 2300


def test_a_sum_at_the_edge_of_64_bits_stays_there() -> None:
    edge = np.array([np.iinfo(np.int64).max] * 20 + [np.iinfo(np.int64).min] * 20)
    noised = add_noise(edge, 1e6)
    assert (np.sign(noised) == np.sign(edge)).all()


@pytest.mark.parametrize("steps", [0.0, 1.0, MIN_NOISE_STEPS - 1, -5000.0, inf, nan, 2.0**60])
def test_noise_of_no_use_is_refused(steps: float) -> None:
    with pytest.raises(ValueError, match="steps of the grid"):
        add_noise(ZEROS, steps)


def test_floating_point_values_are_refused() -> None:
    with pytest.raises(ValueError, match="int64"):
        add_noise(ZEROS.astype(np.float64), 5000.0)


def test_650_values_take_less_than_a_tenth_of_a_second() -> None:
    taken = []
    for _ in range(3):
        start = process_time()
        add_noise(ZEROS, GRID.noise_steps)
        taken.append(process_time() - start)
    assert min(taken) < 0.1


@pytest.mark.parametrize("multiplier", [0.6, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_the_narrowest_noise_has_the_privacy_profile_of_the_continuous_one(multiplier: float, epsilon: float) -> None:
    shift = round(MIN_NOISE_STEPS / multiplier)
    points = np.arange(-14 * int(MIN_NOISE_STEPS), 14 * int(MIN_NOISE_STEPS) + 1, dtype=np.float64)
    here = np.exp(-((points / MIN_NOISE_STEPS) ** 2) / 2)
    there = np.exp(-(((points - shift) / MIN_NOISE_STEPS) ** 2) / 2)
    discrete = np.maximum(there - exp(epsilon) * here, 0).sum() / here.sum()
    mu = shift / MIN_NOISE_STEPS
    continuous = _phi(mu / 2 - epsilon / mu) - exp(epsilon) * _phi(-mu / 2 - epsilon / mu)
    assert discrete == pytest.approx(continuous, rel=3e-6)


def _phi(t: float) -> float:
    return 0.5 * (1 + erf(t / sqrt(2)))
