"""Passes over records without learning: in evaluation mode, without gradients, in fixed slices.

Invariants: the model's mode is as before when a pass ends; slices are of a fixed size, so that a pass done again
gives the same numbers to the last bit.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secureproto.errors import Misconfigured
from secureproto.learning.model import Model
from secureproto.learning.seeding import reproducible

ROWS = 256  # a slice of 3 × 224² images is 154 MB, and so is the first layer's output


class NotFinite(Misconfigured):
    """A model's outputs are not finite numbers."""


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Evaluation mode and no gradients inside; the mode of before afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def outputs(model: Model, x: NDArray[np.float32]) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """(rows, logits, embeddings) of the records in `x`, slice by slice."""
    for start in range(0, len(x), ROWS):
        rows = slice(start, min(start + ROWS, len(x)))
        # entered per slice: a consumer that stops early must not leave the model or torch changed
        with evaluating(model), reproducible(0):
            logits, embeddings = model(torch.tensor(x[rows]))
        yield rows, logits, embeddings


def predict_proba(model: Model, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n, C) probabilities of the classes for every record; a row sums to 1.

    Raises:
        NotFinite: the model gives numbers that are not finite.
    """
    parts = [torch.softmax(logits.double(), dim=1).numpy() for _, logits, _ in outputs(model, x)]
    probabilities = np.concatenate(parts) if parts else np.empty((0, model.classes))
    if not np.isfinite(probabilities).all():
        raise NotFinite(
            "model: its outputs are not finite numbers",
            hint="use an earlier version of the model, or check the units of the records",
        )
    return probabilities
