"""Which model a site uses: chosen on records of its own, never sent, and never what an upload starts from.

    mixed   the version as received: the extractor of all and the site's mixed head
    midway  the mean of the version as received and of `longer` (Wortsman et al., "Robust fine-tuning of zero-shot
            models", CVPR 2022, section 3, with a mixing coefficient of one half)
    longer  the whole version after several more local trainings, ten by default
    local   the whole version after one more local training
    blend   the received extractor, and the mean of the mixed and the own head
    own     that extractor, and a head trained on from the mixed one, on the site's own records

What is chosen is what a site *uses*. What it trains on and uploads starts from the version as received, whatever was
chosen: a private choice would otherwise be a release.

The candidates are judged by their log loss on records that they were not fitted on: the site's training records, one
fold after the other (`cross_fitted`). Log loss, because on 30 records it tells more than a count of errors. The
received extractor has seen those training records, so all candidates look better there than they are: a head fitted
on it anew the most, an extractor that was trained on for longer the least, since it forgets them as it learns the
others. So a candidate must be ahead by MARGIN standard errors to take the place of one that stands before it in
KINDS, where the version as received comes first and a site's own head last. What this costs and brings is measured in
ops/bench/choice.py.

`longer` and `midway` are there for sites that share little with the others: one local training is not enough to bring
an extractor of all back to records such as theirs, and they would be better off alone.

Invariants: equal arguments give equal choices; a candidate whose training diverges, or cannot be done, is none; the
candidate `local` is to the last bit what the site's next local training makes, and the first step of `longer`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from secureproto.learning.training import Diverged, LoneRecord, Plan, train
from secureproto.study.schema import StudyFile

Kind = Literal["mixed", "midway", "longer", "local", "blend", "own"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # of equals the first
UNTRAINED: tuple[Kind, ...] = ("mixed", "blend", "own")  # the extractor is the received one

OWN_EPOCHS = 50  # passes over the records that make an own head of the mixed one
# of a fold's training; a fold may leave a last batch of one where all records do not
NO_CANDIDATE = (Diverged, LoneRecord)
MARGIN = 2.0  # standard errors of the paired difference
SMALLEST = float(np.finfo(np.float64).eps)  # a probability of zero is an infinite loss: as scikit-learn's log_loss

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Start:
    """What a choice starts from: the version that `site` received, in a study whose `[training]` is the length of the
    local training. `kinds`: the candidates, `mixed` among them. `longer`: the local trainings of the candidate of
    that name, 2 or more; with 0 there is none, and no `midway`."""

    study: StudyFile
    received: Received
    site: str
    kinds: tuple[Kind, ...] = KINDS
    longer: int = 0


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
    # all of them, whatever will be chosen: how long a site is silent after the last round is seen from outside
    fitted = candidates(model, start, records=records)
    kind = pick({kind: each for kind, each in losses.items() if kind in fitted})
    return Choice(kind, _means(losses), len(y), len(np.unique(y)), fitted[kind])


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


def pick(losses: Mapping[Kind, F64], margin: float = MARGIN, order: Sequence[Kind] = KINDS) -> Kind:
    """The candidate to use, by the loss of each record (n,) under each candidate.

    It is `mixed` if the lowest mean loss is not ahead of its by more than `margin` standard errors, and otherwise the
    first in the `order` of those that are so far ahead of `mixed`, and themselves within the margin of the lowest.
    (The margin alone is not enough: a few records on which a candidate fails widen it.) The standard error is that of
    the mean of paired differences, and unknown for one record. Without losses: `mixed`.
    """
    known = [kind for kind in order if kind in losses and len(losses[kind])]
    if not known:
        return "mixed"
    best = min(known, key=lambda kind: float(losses[kind].mean()))
    near = [kind for kind in known if _within(margin, losses[kind] - losses[best])]
    if "mixed" in known and "mixed" not in near:
        near = [kind for kind in near if not _within(margin, losses["mixed"] - losses[kind])]
    return near[0]


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
        with suppress(*NO_CANDIDATE):
            own = _own(model, start, mixed, records=records, fold=fold)
            found |= {"blend": blended(mixed, own), "own": own}
    plan = Plan(start.study.training, round_loss(start.study.training, _number(start), prototypes))
    with suppress(*NO_CANDIDATE):
        load_arrays(model, mixed)
        for step in range(_local_trainings(start)):
            train(model, records, plan=plan, generator=_draws(start, "local", fold, step))
            if step == 0:
                found["local"] = to_arrays(model)
        if _local_trainings(start) > 1:
            longer = to_arrays(model)
            found |= {"midway": blended(mixed, longer), "longer": longer}
    return {kind: found[kind] for kind in start.kinds if kind in found}


def _local_trainings(start: Start) -> int:
    """How many, one after the other, the candidates that are asked for need."""
    if start.longer and not {"midway", "longer"}.isdisjoint(start.kinds):
        return start.longer
    return 1 if "local" in start.kinds else 0


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


def _draws(start: Start, kind: Kind, fold: int | None, step: int = 0) -> torch.Generator:
    """The order of records of one training; the first `local` on all records has that of the next round's."""
    if kind == "local" and fold is None and step == 0:
        return round_generator(start.study, site=start.site, round_number=_number(start))
    path = ("choice", kind, *(() if fold is None else (fold,)), *(() if step == 0 else (f"step {step}",)))
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
