"""A site's part in a round, between the arrays of the wire and a model: what a site runs, real or simulated.

    1. Load the extractor and the site's own head that were sent, and take the global prototypes (`receive`).
    2. Train both together on the two-term loss (`training.train`).
    3. Make a pass for class sums and counts, and the loss if the study asks for it (`contribution`).

Invariant: arrays carry the names, dtypes and shapes of `secureproto.wire.layouts`, which follow from the model
schema alone. Source: the method's steps 3 and 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.errors import Misconfigured
from secureproto.learning.arrays import Arrays, load_arrays, to_arrays
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import mean_loss
from secureproto.learning.losses import PrototypeLoss, round_loss
from secureproto.learning.model import Model
from secureproto.learning.prototypes import class_sums
from secureproto.learning.training import Plan, Progress, TrainingSummary, train
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import EXTRACTOR, HEAD, LOSS, PROTOTYPE_AGE, PROTOTYPES

ArrayMap = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Received:
    """What a site was sent for a round: `shared` for all (`shared_schema`), `head` for it (`head_schema`)."""

    round_number: int
    shared: ArrayMap
    head: ArrayMap


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a site sends (`arrays`, in `upload_schema`) and what it keeps to itself (`summary`)."""

    arrays: Arrays
    summary: TrainingSummary


def initial_arrays(model: Model) -> tuple[Arrays, Arrays]:
    """(shared, head) of version 0: the model's weights as they are, and no class with a prototype."""
    prototypes = GlobalPrototypes.absent(model.classes, model.embedding_width)
    shared = {PROTOTYPES: prototypes.values, PROTOTYPE_AGE: prototypes.age, **_prefixed(EXTRACTOR, model.extractor)}
    return shared, _prefixed(HEAD, model.head)


def receive(model: Model, shared: ArrayMap, head: ArrayMap) -> GlobalPrototypes:
    """Load a published version into `model`; gives its global prototypes.

    Raises:
        Misconfigured: the arrays are not those of this model. Then extractor or head may be loaded: use neither.
    """
    shape = (model.classes, model.embedding_width)
    values, age = shared.get(PROTOTYPES), shared.get(PROTOTYPE_AGE)
    if values is None or age is None or values.shape != shape or age.shape != shape[:1]:
        raise Misconfigured(
            "model does not fit the study: the global prototypes are missing, or of another shape",
            hint="install the version of the model that the study was made with",
        )
    load_arrays(model.extractor, _without_prefix(EXTRACTOR, shared))
    load_arrays(model.head, _without_prefix(HEAD, head))
    return GlobalPrototypes(np.array(values), np.array(age))


def contribution(model: Model, data: Records, *, loss: PrototypeLoss, reports_loss: bool) -> Arrays:
    """The arrays of an upload, of a model that has been trained."""
    arrays: Arrays = {PROTOTYPES: class_sums(model, data, model.classes)}
    if reports_loss:
        arrays[LOSS] = np.array([mean_loss(model, data, loss)])
    return {**arrays, **_prefixed(HEAD, model.head), **_prefixed(EXTRACTOR, model.extractor)}


def site_round(
    model: Model,
    data: Records,
    *,
    study: StudyFile,
    received: Received,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> Contribution:
    """A site's whole part in a round; `model` is afterwards as it was trained.

    Raises:
        Misconfigured: as `receive` and `training.train`.
    """
    prototypes = receive(model, received.shared, received.head)
    loss = round_loss(study.training, received.round_number, prototypes)
    summary = train(model, data, plan=Plan(study.training, loss), generator=generator, progress=progress)
    return Contribution(contribution(model, data, loss=loss, reports_loss=study.stopping is not None), summary)


def _prefixed(prefix: str, module: nn.Module) -> Arrays:
    return {prefix + name: array for name, array in to_arrays(module).items()}


def _without_prefix(prefix: str, arrays: ArrayMap) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
