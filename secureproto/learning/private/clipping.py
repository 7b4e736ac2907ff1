"""The sum of clipped gradients, one for each record: what noise is added to.

    Σ_i min(1, C / ‖g_i‖) · g_i,   g_i the gradient of record i's loss over extractor and head together

Invariants: adding or removing one record changes the sum by at most C in L2 norm, whatever the record holds; a record
that has no finite gradient adds exactly zero and leaves what the others add as it was.
Source: Abadi et al., CCS 2016, algorithm 1. Norms are taken in float64: in float32 the square of a small number is 0,
and a layer with huge inputs would pass for one without gradient.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

# sums of float32 numbers differ in their last bits when one record more takes part: the clip leaves room for that
CLIP_MARGIN = 1e-5
# float32 multiplies by smaller factors inexactly; a record whose gradient is so huge is as good as infinite
SMALLEST_FACTOR = 1e-30

Sums = dict[nn.Parameter, Tensor]


@dataclass(frozen=True, eq=False)
class Clipped:
    """Of n records: `sums`, the clipped sum for each trained parameter, in its shape, float32.

    `kept` (n,) bool: which records had a finite gradient. `terms`: each (n,), cross entropy, alignment, norm of the
    embedding: of no use for a release.
    """

    sums: Sums
    kept: Tensor
    terms: tuple[Tensor, Tensor, Tensor]


class Clipper(Protocol):
    """A way to find clipped sums for one model and one loss."""

    def clipped_sum(self, x: Tensor, y: Tensor) -> Clipped:
        """Of at least one record: x (n, …) float32, y (n,) int64, each a class of the model.

        Raises:
            RuntimeError, ValueError, IndexError: the model fails on one of the records.
        """
        ...

    def close(self) -> None:
        """Leave no hook and no gradient on the model."""
        ...


def factors(squares: Tensor, usable: Tensor, max_grad_norm: float) -> Tensor:
    """(n,) float32: what each record's gradient is multiplied by; 0 for one that is left out.

    `squares` (n,) float64: squared norms, possibly not finite. `usable` (n,) bool.
    """
    bound = max_grad_norm * (1 - CLIP_MARGIN)
    found = (bound / squares.sqrt().clamp_min(torch.finfo(torch.float64).tiny)).clamp(max=1.0)
    # NaN compares false, and 1 / infinity is 0: neither is kept
    return torch.where(usable & (found > SMALLEST_FACTOR), found, torch.zeros_like(found)).float()


def finite_rows(*parts: Tensor) -> Tensor:
    """(n,) bool: every number of the row is finite, in each of the parts (n, …)."""
    return torch.stack([torch.isfinite(part).reshape(len(part), -1).all(dim=1) for part in parts]).all(dim=0)


def squared_norms(rows: Tensor) -> Tensor:
    """(n,) float64 of (n, …)."""
    return rows.reshape(len(rows), -1).double().square().sum(dim=1)


def only(kept: Tensor, rows: Tensor) -> Tensor:
    """`rows` (n, …) with zeros in place of the rows that are not kept: 0 · NaN would be NaN in every sum."""
    if bool(kept.all()):
        return rows
    return torch.where(kept.reshape(-1, *[1] * (rows.dim() - 1)), rows, torch.zeros_like(rows))


def weighted_sum(weights: Tensor, rows: Tensor) -> Tensor:
    """Σ_i weights_i · rows_i, in the shape of a row; a row of weight 0 may hold anything."""
    flat = only(weights > 0, rows).reshape(len(rows), -1)
    return (weights @ flat).reshape(rows.shape[1:])
