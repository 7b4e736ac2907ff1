"""Which model a site uses: chosen on records of its own, never sent, and never what an upload starts from.

    mixed   the version as received: the extractor of all and the site's mixed head
    blend   that extractor, and the mean of the mixed and the own head
    own     that extractor, and a head trained on from the mixed one, on the site's own records
    local   the whole version after one more local training

What is chosen is what a site *uses*. What it trains on and uploads starts from the version as received, whatever was
chosen: a private choice would otherwise be a release.

The candidates are judged by their log loss on records that they were not fitted on: the site's training records, one
fold after the other (`cross_fitted`). Log loss, because on 30 records it tells more than a count of errors. The
received extractor has seen those training records, so all candidates look better there than they are, and sharp heads
the most: a candidate must be ahead by MARGIN standard errors to take the place of one that stands before it in KINDS.
What this costs and brings is measured in ops/bench/choice_heart.py.

Invariants: equal arguments give equal choices; a candidate whose training diverges is none; the candidate `local` is
to the last bit what the site's next local training makes.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from secureproto.learning.architectures import ModelSpec
from secureproto.learning.arrays import Arrays, load_arrays, to_arrays
from secureproto.learning.dataset import Records
from secureproto.learning.exchange import Received, receive
from secureproto.learning.inference import NotFinite, outputs, predict_proba
from secureproto.learning.losses import cross_entropy_loss, round_loss
from secureproto.learning.model import Model
from secureproto.learning.seeding import generator, round_generator
from secureproto.learning.training import Diverged, Plan, train
from secureproto.study.schema import StudyFile

Kind = Literal["mixed", "blend", "own", "local"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # of equals the first

OWN_EPOCHS = 50  # passes over the records that make an own head of the mixed one
MARGIN = 2.0  # standard errors of the paired difference
SMALLEST = float(np.finfo(np.float64).eps)  # a probability of zero is an infinite loss: as scikit-learn's log_loss

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Start:
    """What a choice starts from: the version that `site` received, in a study whose `[training]` is the length of the
    local training. `kinds`: the candidates, `mixed` among them."""

    study: StudyFile
    received: Received
    site: str
    kinds: tuple[Kind, ...] = KINDS


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, and the `weights` of that whole model by the names of its tensors.

    `losses`: mean log loss by candidate, on `judged` records of `classes` classes. The site's own, all of it.
    """

    kind: Kind
    losses: Mapping[Kind, float]
    judged: int
    classes: int
    weights: Arrays


def cross_fitted(model: Model, start: Start, *, records: Records, folds: NDArray[np.int64]) -> Choice:
    """Judge every training record by candidates fitted on the other folds; then fit what was chosen on all.

    `folds`: (n,) any integers. `model` is any of the study's; its weights are others afterwards.

    Raises:
        Misconfigured: the version is not of this model, or its outputs are not finite.
    """
    losses, y = out_of_fold(model, start, records=records, folds=folds)
    left = dict(losses)
    while True:
        kind = pick(left)
        weights = candidates(model, replace(start, kinds=(kind,)), records=records).get(kind)
        if weights is not None:
            return Choice(kind, _means(losses), len(y), len(np.unique(y)), weights)
        del left[kind]  # it diverges on all records, though on no part of them


def out_of_fold(
    model: Model, start: Start, *, records: Records, folds: NDArray[np.int64]
) -> tuple[dict[Kind, F64], NDArray[np.int64]]:
    """The loss (m,) of every record under each candidate, fitted without the record's fold; and the classes (m,).

    Fold by fold. All of the n records, or none where they are all in one fold: nothing is left then to fit on.
    """
    parts: list[dict[Kind, F64]] = []
    judged = [np.empty(0, np.int64)]
    for fold in np.unique(folds) if len(np.unique(folds)) > 1 else ():
        inside = folds == fold
        fitted = candidates(model, start, records=_taken(records, ~inside), fold=int(fold))
        parts.append(judge(model, fitted, _taken(records, inside)))
        judged.append(records.y[inside])
    everywhere = [kind for kind in KINDS if parts and all(kind in part for part in parts)]
    return {kind: np.concatenate([part[kind] for part in parts]) for kind in everywhere}, np.concatenate(judged)


def pick(losses: Mapping[Kind, F64], margin: float = MARGIN) -> Kind:
    """The candidate to use, by the loss of each record (n,) under each candidate.

    It is the first in the order of KINDS whose mean loss is within `margin` standard errors of the lowest mean; the
    standard error is that of the mean of paired differences, and unknown for one record. Without losses: `mixed`.
    """
    known = [kind for kind in KINDS if kind in losses and len(losses[kind])]
    if not known:
        return "mixed"
    best = min(known, key=lambda kind: float(losses[kind].mean()))
    return next(kind for kind in known if _within(margin, losses[kind] - losses[best]))


def log_losses(y: NDArray[np.int64], probabilities: F64) -> F64:
    """(n,) −log of the probability (n, C) that each record's true class was given; never infinite."""
    given = probabilities[np.arange(len(y)), y]
    return -np.log(np.clip(given, SMALLEST, None))


def candidates(model: Model, start: Start, *, records: Records, fold: int | None = None) -> dict[Kind, Arrays]:
    """The weights of each candidate of `start`, fitted on `records`; without those that diverge.

    `fold`: which part of the records was left out; each has its own order of records. Raises as
    `cross_fitted`.
    """
    prototypes = receive(model, start.received.shared, start.received.head)
    mixed = to_arrays(model)
    found: dict[Kind, Arrays] = {"mixed": mixed}
    if not {"blend", "own"}.isdisjoint(start.kinds):
        with suppress(Diverged):
            own = _own(model, start, mixed, records=records, fold=fold)
            found |= {"blend": blended(mixed, own), "own": own}
    if "local" in start.kinds:
        with suppress(Diverged):
            load_arrays(model, mixed)
            plan = Plan(start.study.training, round_loss(start.study.training, _number(start), prototypes))
            train(model, records, plan=plan, generator=_draws(start, "local", fold))
            found["local"] = to_arrays(model)
    return {kind: found[kind] for kind in start.kinds if kind in found}


def blended(first: Mapping[str, NDArray[Any]], second: Mapping[str, NDArray[Any]]) -> Arrays:
    """Tensor by tensor the mean of two models, in float64; of integers the larger. Dtypes stay."""
    result = {}
    for name, array in first.items():
        if array.dtype.kind == "f":
            result[name] = ((array.astype(np.float64) + second[name]) / 2).astype(array.dtype)
        else:
            result[name] = np.maximum(array, second[name])
    return result


def _own(model: Model, start: Start, mixed: Arrays, *, records: Records, fold: int | None) -> Arrays:
    """The version with a head trained on from the mixed one. The extractor stands still, so its embeddings are made
    once, in evaluation mode: 50 passes over the records cost one through it."""
    load_arrays(model, mixed)
    width = model.embedding_width
    embeddings = [each.numpy() for _, _, each in outputs(model, records.x)]
    embedded = Records(np.concatenate(embeddings), records.y)
    head = Model(nn.Identity(), model.head, spec=ModelSpec((width,), model.classes, width))
    training = start.study.training.model_copy(update={"local_epochs": OWN_EPOCHS, "local_steps": None})
    plan = Plan(training, cross_entropy_loss(model.classes, width), part="head")
    train(head, embedded, plan=plan, generator=_draws(start, "own", fold))
    return {**mixed, **to_arrays(head)}


def _draws(start: Start, kind: Kind, fold: int | None) -> torch.Generator:
    """The order of records of one candidate; `local` on all records has that of the site's next local training."""
    if kind == "local" and fold is None:
        return round_generator(start.study, site=start.site, round_number=_number(start))
    path = ("choice", kind) if fold is None else ("choice", kind, fold)
    return generator(start.study.model.seed, start.study.name, start.site, _number(start), *path)


def _number(start: Start) -> int:
    return start.received.round_number


def judge(model: Model, fitted: Mapping[Kind, Arrays], records: Records) -> dict[Kind, F64]:
    """The loss of each record under each candidate; without candidates whose outputs are not finite."""
    found: dict[Kind, F64] = {}
    for kind, weights in fitted.items():
        load_arrays(model, weights)
        try:
            found[kind] = log_losses(records.y, predict_proba(model, records.x))
        except NotFinite:
            if kind == "mixed":
                raise  # what was received cannot be used at all
    return found


def _within(margin: float, differences: F64) -> bool:
    """Whether the losses of a candidate over those of the best leave open that it is as good."""
    mean, n = float(differences.mean()), len(differences)
    if mean <= 0 or n == 1:
        return True
    return mean <= margin * float(differences.std(ddof=1)) / sqrt(n)


def _means(losses: Mapping[Kind, F64]) -> dict[Kind, float]:
    return {kind: float(each.mean()) for kind, each in losses.items() if len(each)}


def _taken(records: Records, rows: NDArray[np.bool_]) -> Records:
    return Records(records.x[rows], records.y[rows])
