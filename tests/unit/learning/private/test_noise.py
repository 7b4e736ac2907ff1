"""Noise: Gaussian, of the right size to 5 %, from the system's entropy, never given twice."""

import logging
import math
import os
import threading

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from secureproto.learning.private import entropy, noise
from secureproto.learning.private.noise import NoNoise, SecureNoise, gaussian

COUNT = 200_000


def scale_z(numbers: NDArray[np.float64]) -> float:
    """How many standard errors the variance is off 1."""
    return float((np.mean(numbers**2) - 1) * np.sqrt(len(numbers) / 2))


def test_the_scale_is_right_and_five_percent_too_little_is_seen() -> None:
    numbers = gaussian(COUNT)
    assert abs(scale_z(numbers)) < 6
    assert scale_z(0.95 * numbers) < -11
    assert abs(numbers.mean()) * np.sqrt(COUNT) < 6


def test_the_shape_is_gaussian() -> None:
    numbers = np.sort(gaussian(COUNT))
    expected = np.array([0.5 * (1 + math.erf(x / np.sqrt(2))) for x in numbers[::50]])
    distance = np.abs(expected - np.arange(COUNT)[::50] / COUNT).max()
    assert distance * np.sqrt(COUNT) < 2.6  # Kolmogorov: 3e-6
    assert (np.abs(numbers) > 4).any()
    assert np.abs(numbers).max() < 8.7


@pytest.mark.parametrize("lag", [1, 3, noise.BLOCK, 2 * noise.BLOCK])
def test_numbers_are_independent_also_those_of_a_pair(lag: int) -> None:
    numbers = gaussian(COUNT)
    first, second = numbers[:-lag], numbers[lag:]
    assert abs(np.mean(first * second)) * np.sqrt(COUNT) < 6.5
    assert abs(np.mean(first**2 * second**2) - 1) * np.sqrt(COUNT / 8) < 6.5


@pytest.mark.parametrize("count", [0, 1, 2, 7, 2 * noise.BLOCK, 2 * noise.BLOCK + 1])
def test_every_count_can_be_had(count: int) -> None:
    numbers = gaussian(count)
    assert numbers.shape == (count,)
    assert numbers.dtype == np.float64
    assert np.isfinite(numbers).all()
    assert len(np.unique(numbers)) == count


def test_the_smallest_and_the_largest_bits_give_finite_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for extreme in (0, 2**53 - 1):
        monkeypatch.setattr(entropy, "integers", lambda n, value=extreme: np.full(n, value, dtype=np.uint64))
        assert np.isfinite(gaussian(10)).all()


def test_equal_seeds_of_torch_and_numpy_give_different_noise() -> None:
    draws = []
    for _ in range(2):
        torch.manual_seed(1)
        with SecureNoise() as source:
            draws.append(source.take(100))
    assert not np.intersect1d(draws[0], draws[1]).size


def test_torch_s_generator_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("torch's generator")

    state = torch.get_rng_state()
    for name in ("normal", "randn", "rand", "randn_like", "rand_like", "randint", "manual_seed"):
        monkeypatch.setattr(torch, name, refuse)
    for name in ("normal_", "uniform_", "random_"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    assert abs(scale_z(gaussian(COUNT))) < 6
    assert torch.equal(torch.get_rng_state(), state)


def test_all_bits_come_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = os.urandom

    def urandom(count: int) -> bytes:
        asked.append(count)
        return real(count)

    monkeypatch.setattr(os, "urandom", urandom)
    gaussian(1001)
    assert sum(asked) == 8 * 1002
    monkeypatch.setattr(os, "urandom", bytes)
    assert np.array_equal(gaussian(9), gaussian(9))


def test_what_was_given_is_not_given_again_and_the_thread_ends() -> None:
    with SecureNoise() as source:
        numbers = np.concatenate([source.take(count) for count in (50, 50, 50, 20, 50, 50)])
    assert len(np.unique(numbers)) == len(numbers)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("noise")]


def test_what_is_drawn_ahead_has_the_right_scale_too() -> None:
    with SecureNoise() as source:
        source.take(COUNT)
        assert abs(scale_z(source.take(COUNT))) < 6


def test_a_failure_of_the_system_s_source_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    with SecureNoise() as source:
        source.take(10)

        def fail(count: int) -> bytes:
            raise OSError("no entropy")

        monkeypatch.setattr(os, "urandom", fail)
        source.take(10)  # was drawn ahead before, or fails
        with pytest.raises(OSError, match="no entropy"):
            source.take(10)


def test_no_noise_is_loud(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        source = NoNoise()
    assert "NOISE IS OFF" in caplog.text
    assert source.scale == 0
    assert not source.take(5).any()
