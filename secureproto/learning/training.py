"""Local training by SGD on the two-term loss: extractor and head together, or one of them.

Source: the method's step 3; parts and pull are what published methods of a comparison need of the same loop.
Invariants: equal model, records, plan and generator give equal weights to the last bit; an epoch visits every record
once, in an order drawn from the generator, and its last batch is kept however small it is, so a site with a single
record trains; a part that is not trained keeps its weights to the last bit; nothing measured here leaves the site.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

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
Part = Literal["all", "extractor", "head"]


LARGEST = 1e6  # of a loss, mean over the records of a training: beyond it nothing is learned, finite or not


class Diverged(Misconfigured):
    """A loss, or a weight, is no longer finite, or a loss over LARGEST.

    `term`: cross entropy, alignment, or the tensor's name. `how`: what has become of it.
    """

    def __init__(self, term: str, how: str = "no longer finite") -> None:
        super().__init__(
            f"training: diverged, {term} is {how}",
            hint="the study's learning rate is too high for this model, or its alignment_weight",
        )
        self.term, self.how = term, how

    def __reduce__(self) -> tuple[type["Diverged"], tuple[str, str]]:
        return Diverged, (self.term, self.how)  # it crosses processes as what it is


class LoneRecord(Misconfigured):
    """The last batch has one record, and a layer of the model (BatchNorm) needs two to train."""


@dataclass(frozen=True, eq=False)
class Pull:
    """Towards other weights: weight/2 · ‖w − anchor‖², by its gradient weight · (w − anchor).

    `anchor`: by parameter name, a tensor's array; a parameter without one is not pulled.
    """

    weight: float
    anchor: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Plan:
    """One local training: the study's section, the loss, the part that is trained, and what pulls it."""

    training: TrainingSection
    loss: PrototypeLoss
    part: Part = "all"
    pull: Pull | None = None


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
        self.sums = torch.zeros(3, dtype=torch.float64)

    @torch.no_grad()
    def add(self, cross_entropy: Tensor, alignment: Tensor, embeddings: Tensor) -> None:
        norms = torch.linalg.vector_norm(embeddings, dim=1)
        self.records += len(norms)
        self.sums += torch.stack([part.sum(dtype=torch.float64) for part in (cross_entropy, alignment, norms)])

    def summary(self, steps: int) -> TrainingSummary:
        cross_entropy, alignment, norm = (self.sums / self.records).tolist()
        return TrainingSummary(steps, cross_entropy, alignment, norm)


def train(
    model: Model,
    data: Records,
    *,
    plan: Plan,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> TrainingSummary:
    """Train `model` in place for the plan's epochs or steps; it is in evaluation mode afterwards.

    The optimizer starts anew: no momentum is carried from one round to the next. `generator` gives the order of
    the records and whatever the layers draw.

    Raises:
        Misconfigured: no records.
        LoneRecord: a last batch too small for BatchNorm.
        Diverged: a loss or a weight is no longer finite, or the mean of a loss over LARGEST.
    """
    if len(data) == 0:
        raise Misconfigured("training: there are no records", hint="check the data source of this site")
    training, loss = plan.training, plan.loss
    total, tally = step_count(len(data), training), _Tally()
    with reproducible(int(torch.randint(2**31, (), generator=generator))), _only(model, plan.part) as trained:
        optimizer = torch.optim.SGD(
            trained.values(),
            lr=training.learning_rate,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
        )
        pulls = _pulls(trained, plan.pull)
        model.train()
        for done, rows in enumerate(batches(len(data), training, generator), 1):
            outputs = _forward(model, torch.from_numpy(data.x[rows]))
            cross_entropy, alignment = loss.terms(outputs, torch.from_numpy(data.y[rows]))
            optimizer.zero_grad()
            loss.total(cross_entropy, alignment).mean().backward()  # type: ignore[no-untyped-call]  # torch's
            _pull(pulls, plan.pull)
            optimizer.step()
            tally.add(cross_entropy, alignment, outputs[1])
            if progress is not None:
                progress(done, total)
    model.eval()
    _require_finite(model, tally)
    return tally.summary(total)


@contextmanager
def _only(model: Model, part: Part) -> Iterator[dict[str, torch.nn.Parameter]]:
    """Inside, gradients are computed for the parameters of `part` alone; afterwards for those of before."""
    parameters = dict(model.named_parameters())
    required = {name: parameter.requires_grad for name, parameter in parameters.items()}
    chosen = {
        name: parameter
        for name, parameter in parameters.items()
        if required[name] and (part == "all" or name.startswith(part + "."))
    }
    try:
        for name, parameter in parameters.items():
            parameter.requires_grad_(name in chosen)
        yield chosen
    finally:
        for name, parameter in parameters.items():
            parameter.requires_grad_(required[name])
            parameter.grad = None


Pulls = list[tuple[torch.nn.Parameter, Tensor]]


def _pulls(trained: Mapping[str, torch.nn.Parameter], pull: Pull | None) -> Pulls:
    """Each trained parameter that is pulled, with its anchor."""
    if pull is None:
        return []
    anchors = {name: torch.tensor(array) for name, array in pull.anchor.items()}
    return [(parameter, anchors[name]) for name, parameter in trained.items() if name in anchors]


def _pull(pulls: Pulls, pull: Pull | None) -> None:
    """Add weight · (w − anchor) to the gradients."""
    if pull is None:
        return
    with torch.no_grad():
        for parameter, anchor in pulls:
            if parameter.grad is not None:
                parameter.grad.add_(parameter - anchor, alpha=pull.weight)


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
        raise LoneRecord(
            "model: cannot train on a batch of one record (BatchNorm needs two)",
            hint="use GroupNorm, or another training.batch_size",
        ) from error
    return outputs


def _require_finite(model: Model, tally: _Tally) -> None:
    for term, value in zip(("the cross entropy", "the alignment term"), tally.sums.tolist(), strict=False):
        if not np.isfinite(value):
            raise Diverged(term)
        if value > LARGEST * tally.records:
            raise Diverged(term, f"over {LARGEST:g}")
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise Diverged(name)
