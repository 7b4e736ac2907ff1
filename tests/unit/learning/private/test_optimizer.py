"""The noisy step: σ·C on the sum, the public divisor, momentum, decay afterwards, and empty steps."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from secureproto.learning.private.noise import NoiseSource, SecureNoise
from secureproto.learning.private.optimizer import PrivateOptimizer
from support.private_training import Zeros, plan


class Ones:
    """Noise of 1 everywhere."""

    scale = 1.0

    def take(self, count: int) -> NDArray[np.float64]:
        """Ones."""
        return np.ones(count)


def weights(count: int = 3) -> list[nn.Parameter]:
    return [nn.Parameter(torch.full((count,), 2.0)), nn.Parameter(torch.full((2, 2), -1.0))]


def optimizer(parameters: list[nn.Parameter], noise: NoiseSource, **values: float) -> PrivateOptimizer:
    return PrivateOptimizer(parameters, training=plan(**values), noise=noise)


def test_a_step_by_hand() -> None:
    w = weights()
    steps = optimizer(
        w,
        Ones(),
        noise_multiplier=0.5,
        max_grad_norm=3.0,
        expected_batch=4.0,
        learning_rate=0.1,
        momentum=0.5,
        weight_decay=2.0,
    )
    value, speed = 2.0, 0.0
    for total in (6.0, 0.0, 1.0):
        steps.accumulate({w[0]: torch.full((3,), total / 2)})
        steps.accumulate({w[0]: torch.full((3,), total / 2)})
        steps.step()
        speed = 0.5 * speed + (total + 0.5 * 3.0) / 4.0
        value = (value - 0.1 * speed) * (1 - 0.1 * 2.0)
        assert w[0].detach().numpy() == pytest.approx(value, rel=1e-5)
    assert steps.draws == 3 * 7


def test_a_step_without_records_is_noise_and_counts() -> None:
    w = weights()
    steps = optimizer(w, Ones(), learning_rate=1.0, expected_batch=8.0)
    steps.step()
    assert w[0].detach().numpy() == pytest.approx(2 - 1 / 8)
    assert w[1].detach().numpy() == pytest.approx(-1 - 1 / 8)
    assert steps.draws == 7


def step_noise(sigma: float, bound: float, divisor: float) -> NDArray[np.float64]:
    """What one empty step does to 200,000 weights, over σ·C/divisor."""
    w = [nn.Parameter(torch.zeros(200_000))]
    with SecureNoise() as noise:
        steps = optimizer(
            w, noise, noise_multiplier=sigma, max_grad_norm=bound, expected_batch=divisor, learning_rate=1.0
        )
        steps.step()
    return w[0].detach().double().numpy() * divisor / (sigma * bound)


def test_the_noise_of_a_step_has_the_planned_scale_and_five_percent_less_is_seen() -> None:
    for sigma, bound, divisor in ((1.0, 1.0, 8.0), (0.6, 0.1, 64.0), (4.0, 5.0, 1.0)):
        found = step_noise(sigma, bound, divisor)
        z = (np.mean(found**2) - 1) * np.sqrt(len(found) / 2)
        assert abs(z) < 6
        assert (np.mean((0.95 * found) ** 2) - 1) * np.sqrt(len(found) / 2) < -11


def test_a_sum_is_used_once() -> None:
    w = weights()
    steps = optimizer(w, Zeros(), learning_rate=1.0, expected_batch=1.0)
    steps.accumulate({w[0]: torch.ones(3)})
    steps.step()
    after = w[0].detach().clone()
    steps.step()
    assert torch.equal(w[0].detach(), after)


def test_chunks_add_up_in_float64() -> None:
    w = weights(1)
    steps = optimizer(w, Zeros(), learning_rate=1.0, expected_batch=1.0)
    for part in (1e8, 1.0, -1e8):
        steps.accumulate({w[0]: torch.full((1,), part)})
    steps.step()
    assert float(w[0].detach()) == 1.0


def test_a_gradient_of_another_s_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="no noise"):
        optimizer(weights(), Zeros()).accumulate({nn.Parameter(torch.ones(1)): torch.ones(1)})
