"""The Learner of the method, on torch: a site's part in a round, on the site's own records.

Source: the method, client side; the computing itself is `secureproto.learning`. Invariants: the records are read
once a run; a training done again for the same round and records gives the same numbers; losses are logged at debug
level, into the site's own file.
"""

import logging
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import torch
from numpy.typing import NDArray

from secureproto.data.folds import Folding
from secureproto.data.source import Isolated, Loaded
from secureproto.errors import Misconfigured
from secureproto.learning.choice import KINDS, UNTRAINED, Start, cross_fitted
from secureproto.learning.evaluate import evaluate
from secureproto.learning.exchange import Received, receive, site_round
from secureproto.learning.inference import predict_proba
from secureproto.learning.model import Model, build, model_schema
from secureproto.learning.seeding import generator
from secureproto.learning.training import TrainingSummary
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import EXTRACTOR, HEAD, PROTOTYPE_AGE, PROTOTYPES
from secureproto.wire.messages import ModelSchema
from secureproto_client.learner import Chosen, Counts, ModelUnfit, Scored, Trained
from secureproto_client.models import Arrays, StoredModel

log = logging.getLogger(__name__)


class TorchLearner:
    """A Learner. `load` reads the site's records; `site` enters the order in which they are drawn."""

    def __init__(
        self,
        study: StudyFile,
        schema: ModelSchema,
        load: Callable[[StudyFile], Loaded],
        *,
        site: str,
        allowed_factories: tuple[str, ...] = (),
        threads: int = 1,
    ) -> None:
        self._study = study
        self._schema = schema
        self._load = load
        self._site = site
        self._allowed = allowed_factories
        self._loaded: Loaded | None = None
        torch.set_num_threads(threads)

    def train(self, base: StoredModel, round_number: int) -> Trained:
        return self._train(base, round_number, self._study)

    def fine_tune(self, base: StoredModel, epochs: int | None) -> Trained:
        return self._train(base, base.note.version, self._lasting(epochs))

    def choose(self, base: StoredModel, epochs: int | None, longer: int, folding: Folding) -> Chosen:
        loaded = self.records()
        received = Received(base.note.version, base.shared, base.head)
        kinds = KINDS if epochs != 0 else UNTRAINED
        start = Start(self._lasting(epochs), received, self._site, kinds, longer)
        found = cross_fitted(self._empty(), start, records=loaded.train, folds=folding.of(loaded))
        kept = {name: base.shared[name] for name in (PROTOTYPES, PROTOTYPE_AGE)}
        return Chosen(
            origin="received" if found.kind == "mixed" else found.kind,
            losses={str(kind): loss for kind, loss in found.losses.items()},
            judged=found.judged,
            classes=found.classes,
            shared={**kept, **_only(EXTRACTOR, found.weights)},
            head=_only(HEAD, found.weights),
        )

    def count(self) -> Counts:
        loaded = self.records()
        return Counts(len(loaded.train), len(loaded.test), sum(loaded.isolated.values()))

    def score(self, shared: Arrays, head: Arrays) -> Scored | None:
        records = self.records().test
        if len(records) == 0:
            return None
        scores = asdict(evaluate(self.model(shared, head), records))
        return {key: scores[key] for key in ("accuracy", "balanced_accuracy", "auc", "n")}

    def predict(self, shared: Arrays, head: Arrays, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """(n, C) probabilities for encoded records. Raises as `model`."""
        return predict_proba(self.model(shared, head), x)

    def records(self) -> Loaded:
        """The site's records, read at the first call. Raises Misconfigured when they cannot be used."""
        if self._loaded is None:
            self._loaded = self._load(self._study)
            _tell(self._study.name, self._loaded)
        return self._loaded

    def model(self, shared: Arrays, head: Arrays) -> Model:
        """The study's model with these weights. Raises ModelUnfit, PolicyDenied."""
        model = self._empty()
        try:
            receive(model, shared, head)
        except Misconfigured as error:
            raise ModelUnfit(error.message, hint=error.hint) from error
        return model

    def _empty(self) -> Model:
        try:
            model = build(self._study, self._allowed)
        except Misconfigured as error:
            raise ModelUnfit(error.message, hint=error.hint) from error
        if model_schema(model, self._study) != self._schema:
            raise ModelUnfit(
                f"model does not fit the study {self._study.name}: its tensors differ from those the operator signed",
                hint="install the version of the model that the study was made with",
            )
        return model

    def _lasting(self, epochs: int | None) -> StudyFile:
        """The study with so many epochs of local training; its own amount without a number."""
        if epochs is None:
            return self._study
        training = self._study.training.model_copy(update={"local_epochs": epochs, "local_steps": None})
        return self._study.model_copy(update={"training": training})

    def _train(self, base: StoredModel, number: int, study: StudyFile) -> Trained:
        model, records = self._empty(), self.records().train
        received = Received(number, base.shared, base.head)
        draws = generator(study.model.seed, study.name, self._site, number)
        done = site_round(model, records, study=study, received=received, generator=draws)
        self._note(number, done.summary)
        kept = {name: base.shared[name] for name in (PROTOTYPES, PROTOTYPE_AGE)}
        return Trained(
            update=done.arrays,
            shared={**kept, **_only(EXTRACTOR, done.arrays)},
            head=_only(HEAD, done.arrays),
        )

    def _note(self, number: int, summary: TrainingSummary) -> None:
        log.debug(
            "study %s round %d: %d steps, cross entropy %.4f, alignment %.4f, mean embedding norm %.3f",
            self._study.name, number, summary.steps, summary.cross_entropy, summary.alignment,
            summary.mean_embedding_norm,
        )  # fmt: skip


def _tell(study: str, loaded: Loaded) -> None:
    """What was left out, by place and never by value: a person hears of it where a record could not be read."""
    left_out = ", ".join(f"{count} {reason}" for reason, count in loaded.isolated.items()) or "none"
    level = logging.WARNING if loaded.isolated.get(Isolated.BAD) else logging.DEBUG
    log.log(level, "study %s: records left out: %s", study, left_out)
    for note in loaded.notes:
        log.log(level, "study %s: left out: %s", study, note)


def _only(prefix: str, arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if name.startswith(prefix)}
