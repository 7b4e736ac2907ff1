"""Would a site be better off alone? Own data only against a federation's model, on the site's own held-out rows.

    own data only            as many local trainings as the study has rounds (the simulation's `local`, the same code)
    as received              the version as it was received; where its file has no head, by the nearest prototype
    with a head trained here what is published, and a head trained on it here (only where the file has no head)
    after local training     one local training more, as a member does it after the last version
    as a member would choose what `learning.choice` picks on the training rows, as a member does it after that
    in use                   in place of it: what an enrolled site uses now

Every score has a 95 % interval over draws of the held-out rows, and every model but the first the paired difference
to it. The intervals tell how far these rows can be trusted, and nothing of how the numbers change with another seed.
No connection is opened, and nothing of it leaves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from secureproto.data.folds import Folding
from secureproto.data.holdout import KEY_BYTES
from secureproto.data.settings import FOLD_SHARE, LONGER
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured
from secureproto.learning.arrays import load_arrays
from secureproto.learning.choice import Start, candidates, cross_fitted
from secureproto.learning.exchange import ArrayMap, Received, initial_arrays, receive
from secureproto.learning.inference import predict_proba
from secureproto.learning.model import Model, build
from secureproto.simulation.baselines.fedproto import nearest_prototype
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.simulation.run import FAILURE, KEPT, Run, RunOptions
from secureproto.simulation.statistics import MEASURES, Interval, bootstrap_difference, bootstrap_score
from secureproto.simulation.store import RunStore
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import HEAD
from secureproto_client.verdict import verdict

OWN, RECEIVED, OWN_HEAD, TUNED, CHOSEN, IN_USE = (
    "own data only",
    "as received",
    "with a head trained here",
    "after local training",
    "as a member would choose",
    "in use",
)
FOLDS = Folding(FOLD_SHARE, bytes(KEY_BYTES))  # which row judges in which fold is told to nobody: any key will do
TOO_HIGH = "the study's learning rate is too high for these records"
WIDE = 0.1  # of a difference's whole interval; in a wider one, five points for and five against look alike
FEW = 50  # rows; of fewer, a bootstrap interval is rough: as a rule narrower than it should be
FEW_OF_CLASS = 10  # rows; on fewer of a class no verdict is built

Probabilities = NDArray[np.float64]
Measured = Mapping[str, Interval | None]


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked. `model`: what the model is called; `head`: None where it came without one.

    `in_use`: the version that the site uses now, in the layout of `shared` and `head`, by its name.
    """

    study: StudyFile
    model: str
    version: int
    shared: ArrayMap
    head: ArrayMap | None
    loaded: Loaded
    site: str
    in_use: tuple[str, ArrayMap, ArrayMap] | None = None
    allowed_factories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """One model: its scores, and what it has over own data only; None where a measure cannot be had."""

    model: str
    scores: Measured
    gains: Measured


@dataclass(frozen=True)
class OwnTraining:
    """How own data only was trained. `rounds`: local trainings, one after the other; each of `local_epochs`, or of
    `local_steps`, whichever the study has. `seed`: of the first weights and the order of records."""

    rounds: int
    local_epochs: int | None
    local_steps: int | None
    learning_rate: float
    batch_size: int
    seed: int

    def told(self) -> str:
        """In a line."""
        number, what = (self.local_epochs, "epoch") if self.local_steps is None else (self.local_steps, "step")
        each = f"{number} {what}{'' if number == 1 else 's'}"
        trainings = f"{self.rounds} local training{'' if self.rounds == 1 else 's'}"
        return (
            f"{OWN}: {trainings} of {each}, learning rate {self.learning_rate:g}, "
            f"batches of {self.batch_size}, seed {self.seed}"
        )


@dataclass(frozen=True)
class Benefit:
    """The answer. `notes`: what limits it, one line each. `training`, `held_out`: numbers of rows."""

    study: str
    model: str
    own: OwnTraining
    training: int
    held_out: int
    lines: tuple[Line, ...]
    verdict: str
    notes: tuple[str, ...]


def answer(question: Question) -> Benefit:
    """Train, score, compare.

    Raises:
        Misconfigured: nothing is held out, the model is of another study or not finite, or a training diverges.
        PolicyDenied: the model's factory is not allowed here.
    """
    held_out = question.loaded.test
    if len(held_out) == 0:
        raise Misconfigured(
            f"{question.study.name}: no row is held out: nothing can be compared",
            hint="set hold_out over 0, or mark rows as test in a split column",
        )
    weights, own = _own_data_only(question)
    found = dict(_probabilities(question, weights, held_out.x))
    lines = tuple(
        Line(
            model,
            {m: bootstrap_score(held_out.y, each, m, generator=_draws()) for m in MEASURES},
            {m: bootstrap_difference(held_out.y, each, found[OWN], m, generator=_draws()) for m in MEASURES}
            if model != OWN
            else {},
        )
        for model, each in found.items()
    )
    gains = lines[-1].gains
    countable = _countable(gains, held_out.y)
    uncounted = {measure: gain for measure, gain in gains.items() if measure not in countable}
    return Benefit(
        study=question.study.name,
        model=question.model,
        own=own,
        training=len(question.loaded.train),
        held_out=len(held_out),
        lines=lines,
        verdict=verdict(lines[-1].model, countable, len(held_out), uncounted=uncounted),
        notes=(*question.notes, *_limits(question), *_too_wide(countable, len(held_out))),
    )


def _probabilities(question: Question, own: ArrayMap, x: NDArray[np.float32]) -> Iterator[tuple[str, Probabilities]]:
    """(n, C) of each model; the last is what a member would use."""
    study = question.study
    model = build(study, question.allowed_factories)
    first_head = initial_arrays(model)[1]
    load_arrays(model, own)
    yield OWN, predict_proba(model, x)
    received = Received(question.version, question.shared, first_head if question.head is None else question.head)
    start = Start(study, received, question.site)
    prototypes = receive(model, received.shared, received.head)
    if question.head is not None:
        yield RECEIVED, predict_proba(model, x)
    else:
        if prototypes.present.any():
            yield f"{RECEIVED}, nearest prototype", nearest_prototype(model, prototypes, x)
        weights = _fitted(model, replace(start, kinds=("own",)), question)
        yield OWN_HEAD, predict_proba(model, x)
        head = {name: array for name, array in weights.items() if name.startswith(HEAD)}
        start = replace(start, received=replace(received, head=head))
    _fitted(model, replace(start, kinds=("local",)), question)
    yield TUNED, predict_proba(model, x)
    if question.in_use is not None:
        name, shared, head_in_use = question.in_use
        receive(model, shared, head_in_use)
        yield f"{IN_USE}: {name}", predict_proba(model, x)
        return
    choosing = replace(start, longer=LONGER)
    found = cross_fitted(model, choosing, records=question.loaded.train, folds=FOLDS.of(question.loaded))
    load_arrays(model, found.weights)
    yield CHOSEN, predict_proba(model, x)


def _fitted(model: Model, start: Start, question: Question) -> ArrayMap:
    """Fit the one candidate of `start`; `model` has its weights afterwards."""
    (kind,) = start.kinds
    found = candidates(model, start, records=question.loaded.train)
    if kind not in found:
        raise Misconfigured(f"{question.study.name}: training on from the federation's model diverges", hint=TOO_HIGH)
    load_arrays(model, found[kind])
    return found[kind]


def _own_data_only(question: Question) -> tuple[ArrayMap, OwnTraining]:
    """The weights after as many local trainings as the study has rounds, and how they came about."""
    study, data, store = question.study, question.loaded, RunStore()
    sites = GivenSites({question.site: SiteData(data.train, data.test)})
    options = RunOptions(study.rounds.total + 1, question.allowed_factories)
    try:
        Run(Local(study), sites, InProcess(), store, options).go()
        failure = store.fact(FAILURE)
        if failure is not None:
            raise Misconfigured(f"{study.name}: own data only: {failure}", hint=TOO_HIGH)
        training = study.training
        done = OwnTraining(
            rounds=store.rounds_done() - 1,  # the last record is of what the weights scored
            local_epochs=training.local_epochs,
            local_steps=training.local_steps,
            learning_rate=training.learning_rate,
            batch_size=training.batch_size,
            seed=study.model.seed,
        )
        return store.get(KEPT + question.site), done
    finally:
        store.close()


def _draws() -> np.random.Generator:
    """The same draws of rows for every model and measure, and in every run."""
    return np.random.default_rng(0)


def _countable(gains: Measured, y: NDArray[np.int64]) -> Measured:
    """Of what is gained, what a verdict may stand on: one row of a class would decide the others."""
    scarce = np.unique(y, return_counts=True)[1].min() < FEW_OF_CLASS
    return {measure: gain for measure, gain in gains.items() if measure == "accuracy" or not scarce}


def _too_wide(gains: Measured, rows: int) -> Iterator[str]:
    """Where a difference cannot be told because its interval is wide, and not because it is small."""
    for measure, gain in gains.items():
        if gain is None or gain.low is None or gain.high is None or gain.sign or gain.high - gain.low <= WIDE:
            continue
        name = "AUC" if measure == "auc" else measure.replace("_", " ")
        yield (
            f"{name}: on {rows} rows the difference may be anything from {gain.low:+.2f} to {gain.high:+.2f} "
            f"(95 % interval, {gain.high - gain.low:.2f} wide): too wide to tell"
        )


def _limits(question: Question) -> Iterator[str]:
    """What the reader must know of the rows."""
    classes, train, test = question.study.classes, question.loaded.train.y, question.loaded.test.y
    if len(test) < FEW:
        rows = "1 row is" if len(test) == 1 else f"{len(test)} rows are"
        yield f"only {rows} held out: an interval from so few is itself only a rough one"
    missing = [name for index, name in enumerate(classes) if not (test == index).any()]
    if missing:
        no_auc = ": no AUC" if len(classes) - len(missing) < 2 else ""
        yield f"no held-out row of class {', '.join(missing)}{no_auc}"
    counts = np.bincount(test, minlength=len(classes))
    scarce = [f"{name} ({count})" for name, count in zip(classes, counts, strict=True) if 0 < count < FEW_OF_CLASS]
    if scarce:
        told = ", ".join(scarce)
        yield f"few held-out rows of class {told}: balanced accuracy and AUC are not counted in the verdict"
    if len(np.unique(train)) == 1:
        yield f"every training row is of class {classes[int(train[0])]}: whatever trains on them learns to say so"
