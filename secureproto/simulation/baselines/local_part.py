"""A site's training as nearly all algorithms do it: the study's epochs over its records, and what came of it."""

from functools import partial

import torch

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.learning.arrays import load_arrays
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.inference import predict_proba
from secureproto.learning.losses import PrototypeLoss, cross_entropy_loss
from secureproto.learning.model import Model
from secureproto.learning.seeding import generator, round_generator
from secureproto.learning.training import Part, Plan, Pull, TrainingSummary, train
from secureproto.simulation.method import Predictor, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile


def plain_loss(model: Model) -> PrototypeLoss:
    """Cross entropy alone."""
    return cross_entropy_loss(model.classes, model.embedding_width)


def nobody(model: Model) -> GlobalPrototypes:
    """No class has a global prototype."""
    return GlobalPrototypes.absent(model.classes, model.embedding_width)


def head_predictor(model: Model) -> Predictor:
    """Inference by the classifier head of `model`, as it is when it is called."""
    return partial(predict_proba, model)


def with_model(model: Model, weights: ArrayMap) -> Predictor:
    """Load a whole model's weights; inference by its head."""
    load_arrays(model, weights)
    return head_predictor(model)


def draws(study: StudyFile, visit: Visit, purpose: str = "") -> torch.Generator:
    """The order of records of this site's training in this round, the same for every algorithm; another one for a
    second training of the round, named by its purpose."""
    if not purpose:
        return round_generator(study, site=visit.site, round_number=visit.round_number)
    return generator(study.model.seed, study.name, visit.site, visit.round_number, purpose)


def train_part(
    model: Model, data: SiteData, visit: Visit, *, study: StudyFile, part: Part = "all", pull: Pull | None = None
) -> TrainingSummary:
    """Train a part of `model` on cross entropy for the study's epochs, with the round's order of records."""
    plan = Plan(study.training, plain_loss(model), part, pull)
    return train(model, data.train, plan=plan, generator=draws(study, visit))
