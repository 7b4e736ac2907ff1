"""The two parts of a model in a site's hands: taken apart by name, and trained one after the other.

Invariant: the names are those of the wire (`extractor.…`, `head.…`), so a whole model is its parts put together.
"""

from dataclasses import replace

from secureproto.learning.arrays import Arrays
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.learning.training import Plan, TrainingSummary, train
from secureproto.simulation.baselines.local_part import draws, plain_loss
from secureproto.simulation.method import Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile, TrainingSection
from secureproto.wire.layouts import EXTRACTOR, HEAD


def extractor_of(arrays: ArrayMap) -> Arrays:
    """The tensors of the extractor."""
    return {name: array for name, array in arrays.items() if name.startswith(EXTRACTOR)}


def head_of(arrays: ArrayMap) -> Arrays:
    """The tensors of the classifier head."""
    return {name: array for name, array in arrays.items() if name.startswith(HEAD)}


def of_head(study: StudyFile, epochs: int, learning_rate: float | None = None) -> TrainingSection:
    """The training of the head alone: so many epochs, and the study's learning rate where there is no other."""
    rate = study.training.learning_rate if learning_rate is None else learning_rate
    return study.training.model_copy(update={"local_epochs": epochs, "local_steps": None, "learning_rate": rate})


def head_then_body(
    model: Model, data: SiteData, visit: Visit, *, study: StudyFile, head: TrainingSection, loss: PrototypeLoss
) -> TrainingSummary:
    """The head on cross entropy as `head` has it, extractor frozen; then the extractor on `loss`, head frozen, for
    the study's epochs or steps.

    Each has its own order of records, and an optimizer that starts anew. What is measured is the second's; the steps
    are those of both.
    """
    first = Plan(head, plain_loss(model), "head")
    fitted = train(model, data.train, plan=first, generator=draws(study, visit, "head"))
    second = Plan(study.training, loss, "extractor")
    body = train(model, data.train, plan=second, generator=draws(study, visit))
    return replace(body, steps=fitted.steps + body.steps)
