"""The loss of local training: cross entropy plus μ times the alignment of embeddings with global prototypes.

    L = CE + μ · A,   A = (1/|B|) Σ_{x,y ∈ B} present(y) · ‖f(x) − c̄_y‖² / d

Source: prototype-aligned personalised federated learning (Wang, Cai), client side, with the 1/d of this project;
near relatives are FedProto (Tan et al., AAAI 2022) and FedPAC (Xu, Tong, Huang, ICLR 2023).

Invariants: a class without a global prototype adds nothing to A, but its records count in |B|; so with no
prototype at all, as in round 0, L is CE. The loss of a batch is the mean of losses that each depend on one record
only: `reduction = "none"` gives those, which is what clipping per record needs.
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.study.schema import TrainingSection

Reduction = Literal["mean", "sum", "none"]


class PrototypeLoss(nn.Module):
    """Called with `((logits (n, C), embeddings (n, d)), y (n,) int64)`; gives a scalar, or (n,) for "none".

    `weight` is μ of this round (`alignment_weight`). `reduction` may be set between calls.
    """

    values: Tensor
    present: Tensor

    def __init__(self, prototypes: GlobalPrototypes, weight: float, *, reduction: Reduction = "mean") -> None:
        super().__init__()
        if weight < 0:
            raise ValueError("the weight of the alignment term is negative")
        self.reduction: Reduction = reduction
        self.weight = weight
        present = np.asarray(prototypes.present, dtype=bool)
        self.any_present = bool(present.any())
        # what stands in an absent row is nobody's business, not even through 0 · NaN
        values = np.where(present[:, None], prototypes.values, 0.0)
        self.register_buffer("values", torch.from_numpy(values), persistent=False)
        self.register_buffer("present", torch.from_numpy(present.copy()), persistent=False)

    def forward(self, outputs: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        losses = self.total(*self.terms(outputs, y))
        if self.reduction == "none":
            return losses
        return losses.sum() if self.reduction == "sum" else losses.mean()

    def terms(self, outputs: tuple[Tensor, Tensor], y: Tensor) -> tuple[Tensor, Tensor]:
        """Both terms of every record, before μ: cross entropy (n,) and present(y)·‖z − c̄_y‖²/d (n,)."""
        logits, embeddings = outputs
        cross_entropy = functional.cross_entropy(logits, y, reduction="none")
        if not self.any_present:
            return cross_entropy, torch.zeros_like(cross_entropy)
        targets = self.values.to(embeddings.dtype)[y]
        distances = (embeddings - targets).square().sum(dim=1) / embeddings.shape[1]
        return cross_entropy, distances * self.present[y]

    def total(self, cross_entropy: Tensor, alignment: Tensor) -> Tensor:
        """The loss of every record (n,) from its two terms."""
        if self.weight == 0:
            return cross_entropy  # the same, without a way back through the other term
        return cross_entropy + self.weight * alignment


def alignment_weight(training: TrainingSection, round_number: int) -> float:
    """μ of a round: it grows linearly from 0 in round 0 to its full value in round `alignment_warmup_rounds`."""
    warmup = training.alignment_warmup_rounds
    share = min(1.0, round_number / warmup) if warmup else 1.0
    return training.alignment_weight * share


def round_loss(training: TrainingSection, round_number: int, prototypes: GlobalPrototypes) -> PrototypeLoss:
    """The loss of a round, from the study's section and the global prototypes that were sent."""
    return PrototypeLoss(prototypes, alignment_weight(training, round_number))


def cross_entropy_loss(classes: int, embedding_width: int) -> PrototypeLoss:
    """The loss without prototypes: that of round 0, and of every method that has none."""
    return PrototypeLoss(GlobalPrototypes.absent(classes, embedding_width), 0.0)
