"""A site's part in a round of a study with `[privacy]`: what takes the place of `learning.exchange.site_round`.

    1. Load the extractor and the site's own head that were sent, and take the global prototypes.
    2. Train both together under DP-SGD (`training`); without `[privacy.training]` as without privacy.
    3. In a round that releases prototypes: a pass in evaluation mode for the class sums, noised on their grid
       (`privacy.mechanisms.prototypes`). In every other round zeros of the same shape.

Invariant: what `PrivateContribution.arrays` holds is covered by `events`, the very ones that the plan has for the
round; the shape of an upload tells nothing, neither which classes a site holds nor how many records.
The caller owes: `events` reserved on the ledger before this is called. Source: METHOD.md, steps 3 and 4; PRIVACY.md.
"""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from secureproto.learning.arrays import Arrays, to_arrays
from secureproto.learning.dataset import Records
from secureproto.learning.exchange import Received, receive
from secureproto.learning.inference import ROWS, outputs
from secureproto.learning.losses import PrototypeLoss, round_loss
from secureproto.learning.model import Model
from secureproto.learning.private.noise import NoiseSource, SecureNoise
from secureproto.learning.private.sampler import PoissonSampler, Sampler
from secureproto.learning.private.training import Sources, train_privately
from secureproto.learning.training import Plan, TrainingSummary, train
from secureproto.privacy.events import Mechanism, SampledGaussian, Unprotected
from secureproto.privacy.mechanisms.grid import PrototypeGrid
from secureproto.privacy.mechanisms.prototypes import GridNoise, PrototypeSums
from secureproto.study.privacy import PrivacySection, PrivateTraining
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import EXTRACTOR, HEAD, PROTOTYPES


@dataclass(frozen=True, eq=False)
class Chance:
    """Where a round's chance comes from. The default of every part is the system's cryptographic source; anything
    else is for simulations, where nothing leaves, and for audits. `grid_noise` None: OpenDP's sampler."""

    sampler: Sampler | None = None
    noise: NoiseSource | None = None
    grid_noise: GridNoise | None = None


@dataclass(frozen=True, eq=False)
class PrivateContribution:
    """What a site sends (`arrays`, in `upload_schema`), what that costs (`events`), what it keeps (`summary`).

    With another `Chance` than the default the events are without a guarantee: nothing of it may leave.
    """

    arrays: Arrays
    events: tuple[Mechanism, ...]
    summary: TrainingSummary


def private_site_round(
    model: Model,
    data: Records,
    *,
    study: StudyFile,
    received: Received,
    generator: torch.Generator,
    chance: Chance | None = None,
) -> PrivateContribution:
    """A site's whole part in the round; `model` is afterwards as it was trained.

    `generator`: the order of records where training is not private.

    Raises:
        Misconfigured: as `receive`, `train_privately` and `training.train`.
        ValueError: a study without `[privacy]`.
    """
    privacy, chance = study.privacy, chance or Chance()
    if privacy is None:
        raise ValueError("a study without [privacy] has no private round")
    loss = round_loss(study.training, received.round_number, receive(model, received.shared, received.head))
    if privacy.training is None:
        summary = train(model, data, plan=Plan(study.training, loss), generator=generator)
        events: tuple[Mechanism, ...] = (Unprotected(),)
    else:
        summary, event = _train(model, data, privacy.training, loss, chance)
        events = (event,)
    grid = prototype_grid(study, privacy, model.embedding_width)
    matrix = np.zeros((grid.classes, grid.width + 1))
    if privacy.prototypes.releases_in(received.round_number):
        released = class_sums(model, data, grid).release(noise=chance.grid_noise)
        matrix, events = released.matrix, (*events, released.event)
    weights = {HEAD: to_arrays(model.head), EXTRACTOR: to_arrays(model.extractor)}
    arrays = {prefix + name: array for prefix, part in weights.items() for name, array in part.items()}
    return PrivateContribution({PROTOTYPES: matrix, **arrays}, events, summary)


def _train(
    model: Model, data: Records, training: PrivateTraining, loss: PrototypeLoss, chance: Chance
) -> tuple[TrainingSummary, Mechanism]:
    """DP-SGD, and what it was for the accountant."""
    with nullcontext(chance.noise) if chance.noise is not None else SecureNoise() as noise:
        sources = Sources(chance.sampler or PoissonSampler(), noise)
        done = train_privately(model, data, training=training, loss=loss, sources=sources)
    if chance.noise is not None or chance.sampler is not None:
        return done.local.summary, Unprotected()  # what can be foreseen protects nothing
    return done.local.summary, SampledGaussian(done.noise_multiplier, training.sample_rate, done.steps)


def prototype_grid(study: StudyFile, privacy: PrivacySection, width: int) -> PrototypeGrid:
    """The public parameters of a study's releases; the server's are the same (`aggregation.noisy.noisy_options`)."""
    section = privacy.prototypes
    return PrototypeGrid(
        classes=len(study.classes),
        width=width,
        radius=section.max_embedding_norm,
        count_weight=section.count_weight(width),
        noise_multiplier=section.noise_multiplier,
    )


def class_sums(model: Model, data: Records, grid: PrototypeGrid) -> PrototypeSums:
    """Sums and counts of the embeddings, record by record, in evaluation mode; not released yet, so private."""
    sums = PrototypeSums(grid)
    for start in range(0, len(data), ROWS):
        _add(sums, model, Records(data.x[start : start + ROWS], data.y[start : start + ROWS]))
    return sums


def _add(sums: PrototypeSums, model: Model, data: Records) -> None:
    """At most one slice of records. A failure that one of them can cause would be a release: the others go on."""
    try:
        ((_, _, embeddings),) = outputs(model, data.x)
    except (RuntimeError, ValueError, IndexError, ArithmeticError):
        middle = len(data) // 2
        for half in (slice(middle), slice(middle, None)) if middle else ():
            _add(sums, model, Records(data.x[half], data.y[half]))
        return
    sums.add(embeddings.double().numpy(), data.y)
