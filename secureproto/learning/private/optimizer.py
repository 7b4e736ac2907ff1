"""The step of DP-SGD: noise on the sum of clipped gradients, a public divisor, SGD with momentum, then weight decay.

    g̃ = (Σ + σ·C·N(0, I)) / expected_batch;   v ← momentum·v + g̃;   w ← w - lr·v;   w ← w·(1 - lr·weight_decay)

Invariants: one vector over all trained tensors, so one clip and one draw; nothing after the noise looks at a record;
a step without records is a step like any other, of noise alone; the divisor is the plan's, not the number drawn.
Sources: Abadi et al., CCS 2016, algorithm 1; Loshchilov and Hutter, ICLR 2019 (decay beside the gradient).
"""

from collections.abc import Sequence

import torch
from opacus.optimizers import DPOptimizer
from torch import Tensor, nn

from secureproto.learning.private.clipping import Sums
from secureproto.learning.private.noise import NoiseSource
from secureproto.study.privacy import PrivateTraining


class PrivateOptimizer(DPOptimizer):  # type: ignore[misc]  # Opacus has no types
    """`accumulate` the clipped sums of a step's chunks, then `step`.

    The sum is kept in float64, so that chunks add up exactly enough. `draws`: numbers of noise used so far.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], *, training: PrivateTraining, noise: NoiseSource) -> None:
        sgd = torch.optim.SGD(parameters, lr=training.learning_rate, momentum=training.momentum)
        super().__init__(
            sgd,
            noise_multiplier=training.noise_multiplier,
            max_grad_norm=training.max_grad_norm,
            expected_batch_size=training.expected_batch,
            loss_reduction="mean",
        )
        self._parameters = list(parameters)
        self._sizes = [parameter.numel() for parameter in parameters]
        self._sum = torch.zeros(sum(self._sizes), dtype=torch.float64)
        self._noise = noise
        self._decay = 1 - training.learning_rate * training.weight_decay
        self.draws = 0

    @property
    def accumulated_iterations(self) -> int:
        """1: chunks are parts of one step, and the divisor is of a step."""
        return 1

    def accumulate(self, sums: Sums) -> None:
        """Add the clipped sums of some of the step's records; a parameter that is missing gets nothing.

        Raises:
            ValueError: a sum for a parameter that is not of this optimizer.
        """
        if not {id(parameter) for parameter in sums} <= {id(parameter) for parameter in self._parameters}:
            raise ValueError("a gradient for a parameter that gets no noise")
        for part, parameter in zip(self._split(self._sum), self._parameters, strict=True):
            if parameter in sums:
                part += sums[parameter].reshape(-1)

    def _split(self, flat: Tensor) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = torch.split(flat, self._sizes)
        return parts

    def clip_and_accumulate(self) -> None:
        """Sums come clipped."""

    def add_noise(self) -> None:
        """Set the gradients to the noisy sum, and forget the sum: it is used once."""
        noisy = torch.from_numpy(self._noise.take(len(self._sum)))
        noisy *= self.noise_multiplier * self.max_grad_norm
        noisy += self._sum
        self._sum.zero_()
        self.draws += len(noisy)
        for part, parameter in zip(self._split(noisy.float()), self._parameters, strict=True):
            parameter.grad = part.view(parameter.shape)

    def pre_step(self, closure: object = None) -> bool:
        """Noise, then the divisor."""
        self.add_noise()
        self.scale_grad()
        return True

    @torch.no_grad()
    def step(self, closure: object = None) -> None:
        """One step, whatever was accumulated, also nothing."""
        self.pre_step()
        self.original_optimizer.step()
        if self._decay != 1:
            for parameter in self._parameters:
                parameter.mul_(self._decay)
        self.zero_grad()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients and sums."""
        self._sum.zero_()
        self.original_optimizer.zero_grad(set_to_none)

    def wraps(self, parameters: Sequence[Tensor]) -> bool:
        """Whether `parameters` are exactly those that get noise."""
        return [id(parameter) for parameter in parameters] == [id(parameter) for parameter in self._parameters]
