"""Local training: extractor and head together, by SGD on the two-term loss.

Source: the method's step 3. Invariants: equal model, records, loss and generator give equal weights to the last
bit; an epoch visits every record once, in an order drawn from the generator, and its last batch is kept however
small it is, so a site with a single record trains; nothing measured here leaves the site.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.learning.seeding import reproducible
from secureproto.study.schema import TrainingSection

Progress = Callable[[int, int], None]  # (steps done, steps in total)


@dataclass(frozen=True)
class TrainingSummary:
    """Means over every record visited, before each step's update: the site's own, never sent.

    `alignment` is A, before μ. An embedding norm that grows from round to round is the known failure of methods
    with prototypes.
    """

    steps: int
    cross_entropy: float
    alignment: float
    mean_embedding_norm: float


class _Tally:
    """Sums over the records visited, in float64."""

    def __init__(self) -> None:
        self.records = 0
        self.sums = np.zeros(3)

    def add(self, cross_entropy: Tensor, alignment: Tensor, embeddings: Tensor) -> None:
        norms = torch.linalg.vector_norm(embeddings, dim=1)
        self.records += len(norms)
        self.sums += [float(part.detach().double().sum()) for part in (cross_entropy, alignment, norms)]

    def summary(self, steps: int) -> TrainingSummary:
        cross_entropy, alignment, norm = (self.sums / self.records).tolist()
        return TrainingSummary(steps, cross_entropy, alignment, norm)


def train(
    model: Model,
    data: Records,
    *,
    training: TrainingSection,
    loss: PrototypeLoss,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> TrainingSummary:
    """Train `model` in place for the study's epochs or steps; it is in evaluation mode afterwards.

    The optimizer starts anew: no momentum is carried from one round to the next. `generator` gives the order of
    the records and whatever the layers draw.

    Raises:
        Misconfigured: no records, a last batch too small for BatchNorm, or weights that are no longer finite.
    """
    if len(data) == 0:
        raise Misconfigured("training: there are no records", hint="check the data source of this site")
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )
    total, tally = step_count(len(data), training), _Tally()
    with reproducible(int(torch.randint(2**31, (), generator=generator))):
        model.train()
        for done, rows in enumerate(batches(len(data), training, generator), 1):
            outputs = _forward(model, torch.tensor(data.x[rows]))
            cross_entropy, alignment = loss.terms(outputs, torch.tensor(data.y[rows]))
            optimizer.zero_grad()
            loss.total(cross_entropy, alignment).mean().backward()  # type: ignore[no-untyped-call]  # torch's
            optimizer.step()
            tally.add(cross_entropy, alignment, outputs[1])
            if progress is not None:
                progress(done, total)
    model.eval()
    _require_finite(model)
    return tally.summary(total)


def step_count(records: int, training: TrainingSection) -> int:
    """Batches of one local training on so many records."""
    if training.local_steps is not None:
        return training.local_steps
    return (training.local_epochs or 0) * ceil(records / training.batch_size)


def batches(records: int, training: TrainingSection, generator: torch.Generator) -> Iterator[NDArray[np.int64]]:
    """Row numbers of each batch. With `local_steps`, epochs follow one another until the steps are done."""
    left = step_count(records, training)
    while left > 0:
        order = torch.randperm(records, generator=generator).numpy()
        for start in range(0, records, training.batch_size)[:left]:
            yield order[start : start + training.batch_size]
        left -= ceil(records / training.batch_size)


def _forward(model: Model, x: Tensor) -> tuple[Tensor, Tensor]:
    try:
        outputs: tuple[Tensor, Tensor] = model(x)
    except ValueError as error:
        if len(x) > 1:
            raise
        raise Misconfigured(
            "model: cannot train on a batch of one record (BatchNorm needs two)",
            hint="use GroupNorm, or another training.batch_size",
        ) from error
    return outputs


def _require_finite(model: Model) -> None:
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise Misconfigured(
                f"training: diverged, {name} is no longer finite",
                hint="the study's learning rate is too high for this model, or its alignment_weight",
            )
