"""Clipped sums without the gradients of single records where a layer allows it: the fast way.

A pass forward and one backward give each layer its inputs a_i and the derivative b_i by its outputs. A fully
connected layer's gradient is b_i a_iᵀ, so its norm is ‖b_i‖·‖a_i‖ and the clipped sum one product of matrices; for
other layers Opacus' rule gives the gradients of single records, small for convolutions. No second pass goes back.

Invariant: norm and sum are of the same a_i and b_i. So whatever else a loss or a model does with a weight (a proximal
term, a second use) is not learned from, and cannot leave unclipped either.
Sources: Goodfellow 2015 ("Efficient per-example gradient computations"); Li et al., ICLR 2022 (ghost clipping); Bu
et al., ICML 2023 (one backward pass).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor, nn

from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.learning.private.clipping import (
    Clipped,
    Sums,
    factors,
    finite_rows,
    only,
    squared_norms,
    weighted_sum,
)


@dataclass(frozen=True, eq=False)
class _Seen:
    """A layer's input and output in one pass, with the number of times each had been written to."""

    inputs: Tensor
    output: Tensor
    versions: tuple[int, int]

    def unchanged(self) -> bool:
        return self.versions == (self.inputs._version, self.output._version)


@dataclass(frozen=True, eq=False)
class _LayerGradients:
    """The gradients by a layer's tensors of every record: `single`, or for a 2-d fully connected layer a and b."""

    layer: nn.Module
    inputs: Tensor
    backs: Tensor
    single: Mapping[nn.Parameter, Tensor] | None

    def squares(self) -> Tensor:
        """(n,) float64: squared norms over the layer's trained tensors."""
        if self.single is not None:
            return torch.stack([squared_norms(rows) for rows in self.single.values()]).sum(dim=0)
        from_inputs = squared_norms(self.inputs) if self.layer.weight.requires_grad else 0.0
        bias = 1.0 if _trained(self.layer.bias) else 0.0
        return squared_norms(self.backs) * (from_inputs + bias)

    def sums(self, weights: Tensor) -> Sums:
        """Σ_i weights_i · g_i for each trained tensor."""
        if self.single is not None:
            return {parameter: weighted_sum(weights, rows) for parameter, rows in self.single.items()}
        kept = weights > 0
        backs = only(kept, self.backs) * weights[:, None]
        result: Sums = {}
        if _trained(self.layer.weight):
            result[self.layer.weight] = backs.T @ only(kept, self.inputs)  # type: ignore[index]  # a parameter
        if _trained(self.layer.bias):
            result[self.layer.bias] = backs.sum(dim=0)  # type: ignore[index]  # a parameter
        return result


class Ghost:
    """A `Clipper` for a model that `check_private` has passed."""

    def __init__(self, model: Model, loss: PrototypeLoss, max_grad_norm: float) -> None:
        self._model, self._loss, self._bound = model, loss, max_grad_norm
        self._layers = [
            module for module in model.modules() if any(_trained(item) for item in module.parameters(recurse=False))
        ]

    def clipped_sum(self, x: Tensor, y: Tensor) -> Clipped:
        """As of `Clipper`.

        Raises:
            RuntimeError: as of `Clipper`; also a layer's input or output that was overwritten.
        """
        with self._watching() as seen:
            logits, embeddings = self._model(x)
        cross_entropy, alignment = self._loss.terms((logits, embeddings), y)
        losses = self._loss.total(cross_entropy, alignment)
        outputs = [layer.output for layer in seen.values()]
        backs = torch.autograd.grad(losses.sum(), outputs, allow_unused=True)
        found = [
            _gradients(layer, seen[layer], back)
            for layer, back in zip(seen, backs, strict=True)
            if back is not None  # no loss depends on this output: its gradient is 0
        ]
        with torch.no_grad():
            squares = torch.stack([part.squares() for part in found]).sum(dim=0)
            weights = factors(squares, finite_rows(logits, embeddings, losses), self._bound)
            sums: Sums = {}
            for part in found:
                sums |= part.sums(weights)
            norms = torch.linalg.vector_norm(embeddings, dim=1)
        return Clipped(sums, weights > 0, (cross_entropy.detach(), alignment.detach(), norms))

    def close(self) -> None:
        """Nothing is left between two calls."""

    @contextmanager
    def _watching(self) -> Iterator[dict[nn.Module, _Seen]]:
        seen: dict[nn.Module, _Seen] = {}
        hooks = [layer.register_forward_hook(partial(_remember, seen)) for layer in self._layers]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()


def _remember(seen: dict[nn.Module, _Seen], layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    if layer in seen:
        raise RuntimeError("a layer ran twice in one pass")
    given = inputs[0].detach()
    seen[layer] = _Seen(given, output, (given._version, output._version))


def _gradients(layer: nn.Module, seen: _Seen, backs: Tensor) -> _LayerGradients:
    if not seen.unchanged():
        raise RuntimeError("a layer's input or output was overwritten in place")
    if isinstance(layer, nn.Linear) and seen.inputs.dim() == 2:
        return _LayerGradients(layer, seen.inputs, backs, None)
    # Opacus' rule for convolutions reads strides as if channels came first in memory, and gives wrong gradients
    # without a word where they do not
    rule = GradSampleModule.GRAD_SAMPLERS[type(layer)]
    with torch.no_grad():
        single = rule(layer, [seen.inputs.contiguous()], backs.contiguous())
    return _LayerGradients(layer, seen.inputs, backs, single)


def _trained(parameter: object) -> bool:
    return isinstance(parameter, nn.Parameter) and parameter.requires_grad
