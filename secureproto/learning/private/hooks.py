"""Clipped sums from the gradient of every single record, by Opacus' module: the slow way, which checks the fast.

Invariant: as of `clipping`; it holds n times the trained weights in memory.
Source: Yousefpour et al. 2021 ("Opacus").
"""

import torch
from opacus.grad_sample import GradSampleModule
from opacus.grad_sample.gsm_base import OPACUS_PARAM_MONKEYPATCH_ATTRS
from torch import Tensor, nn

from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.learning.private.clipping import Clipped, Sums, factors, finite_rows, squared_norms, weighted_sum

ON_PARAMETERS = (*OPACUS_PARAM_MONKEYPATCH_ATTRS, "summed_grad")
ON_MODULES = ("activations", "max_batch_len", "autograd_grad_sample_hooks", "ft_compute_sample_grad")


class _Wrapped(GradSampleModule):  # type: ignore[misc]  # Opacus has no types
    """Opacus' module; its rule for convolutions misreads inputs whose channels come last in memory."""

    def rearrange_grad_samples(
        self, *, module: nn.Module, backprops: Tensor, loss_reduction: str, batch_first: bool
    ) -> tuple[list[Tensor], Tensor]:
        activations, backs = super().rearrange_grad_samples(
            module=module, backprops=backprops, loss_reduction=loss_reduction, batch_first=batch_first
        )
        return [part.contiguous() for part in activations], backs.contiguous()


class Hooks:
    """A `Clipper` for a model that `check_private` has passed."""

    def __init__(self, model: Model, loss: PrototypeLoss, max_grad_norm: float) -> None:
        self._model, self._loss, self._bound = model, loss, max_grad_norm
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._wrapped = _Wrapped(model, loss_reduction="sum")

    def clipped_sum(self, x: Tensor, y: Tensor) -> Clipped:
        """As of `Clipper`."""
        self._forget()
        # with inputs that ask for a gradient torch has no reason to warn of a first layer without
        logits, embeddings = self._wrapped(x.detach().requires_grad_())
        cross_entropy, alignment = self._loss.terms((logits, embeddings), y)
        losses = self._loss.total(cross_entropy, alignment)
        losses.sum().backward()  # type: ignore[no-untyped-call]  # torch's
        single = {item: item.grad_sample for item in self._parameters if item.grad_sample is not None}  # type: ignore[attr-defined]  # Opacus sets it
        with torch.no_grad():
            squares = torch.stack([squared_norms(rows) for rows in single.values()]).sum(dim=0)
            weights = factors(squares, finite_rows(logits, embeddings, losses), self._bound)
            sums: Sums = {item: weighted_sum(weights, rows) for item, rows in single.items()}
            norms = torch.linalg.vector_norm(embeddings, dim=1).detach()
        self._forget()
        return Clipped(sums, weights > 0, (cross_entropy.detach(), alignment.detach(), norms))

    def close(self) -> None:
        """Remove Opacus' hooks, and every attribute that it set."""
        self._wrapped.to_standard_module()
        strip(self._model)

    def _forget(self) -> None:
        """As if nothing had run: a pass that failed leaves inputs and counts behind, which the next would use."""
        for item in self._parameters:
            item.grad = None
            item.grad_sample, item._forward_counter = None, 0  # type: ignore[attr-defined]  # Opacus' own
            vars(item).pop("_current_grad_sample", None)
        for module in self._model.modules():
            for name in ("activations", "max_batch_len"):
                vars(module).pop(name, None)


def strip(model: nn.Module) -> None:
    """Remove gradients, of the batch and of single records, from all that could be written out with the model."""
    for parameter in model.parameters():
        parameter.grad = None
        for name in ON_PARAMETERS:
            vars(parameter).pop(name, None)
    for module in model.modules():
        for name in ON_MODULES:
            vars(module).pop(name, None)
