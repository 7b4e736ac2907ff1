"""The seam of the engines: work of a round, jobs of its sites, results in order; and the worker all engines share.

Invariants: a result depends on the work and the job, not on the process or on what was done before in it; one torch
thread a worker; scores are taken on records that the training did not see.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Protocol

import numpy as np

from secureproto.learning.arrays import Arrays
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import score
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.inference import NotFinite
from secureproto.learning.model import Model, build
from secureproto.learning.seeding import reproducible
from secureproto.learning.training import Diverged
from secureproto.learning.warming import warm_up
from secureproto.simulation.history import CHOSEN, RECEIVED, TEST, TUNED, VALIDATION, Measured, SiteRound
from secureproto.simulation.method import Choosing, Method, Predictor, Sent, Visit
from secureproto.simulation.population import SiteData

OUTPUT = "a model's output"


class Sites(Protocol):
    """The sites of a simulation: `population.Population`, or `population.GivenSites`."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def site(self, name: str) -> SiteData: ...


@dataclass(frozen=True, eq=False)
class Work:
    """What is alike for all sites of a round. `last`: nothing is sent. `choice`: sites that can choose what
    they use do."""

    method: Method
    sites: Sites
    round_number: int
    shared: ArrayMap
    evaluate: bool
    last: bool = False
    choice: bool = False
    allowed_factories: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Job:
    """One site's own part: what only it received and what it kept."""

    site: str
    personal: ArrayMap
    kept: ArrayMap = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Done:
    """A job's outcome: for the server (`sent`), for the site (`kept`), for the researcher (`record`)."""

    site: str
    sent: Sent
    kept: Arrays
    record: SiteRound


class Engine(Protocol):
    """Runs jobs."""

    def perform(self, work: Work, jobs: Iterable[Job]) -> Iterator[Done]:
        """Results in the order of `jobs`, which is read as results are taken and never far ahead of them.

        Raises:
            Diverged: a site's training, or what its model gives; others of the round may not have been done.
            Misconfigured, PolicyDenied: the model cannot be built.
        """
        ...

    def close(self) -> None:
        """Give back what the engine holds; a second call does nothing."""
        ...


class Worker:
    """Does jobs in one process. Keeps one model, whose weights mean nothing between jobs.

    The seconds of a training are its own, of the first one too.
    """

    def __init__(self) -> None:
        warm_up()
        self._model: Model | None = None
        self._built: tuple[object, ...] = ()

    def perform(self, work: Work, job: Job) -> Done:
        """One site's part in a round. Raises as Engine.perform."""
        with reproducible(0):  # one thread, and torch's global generator the same for every job
            return self._perform(work, job)

    def _perform(self, work: Work, job: Job) -> Done:
        model, data = self._model_of(work), work.sites.site(job.site)
        visit = Visit(job.site, work.round_number, work.shared, job.personal, job.kept)
        points: dict[str, dict[str, Measured]] = {}
        if work.evaluate:
            points[RECEIVED] = _scores(work.method.use(model, data, visit), data)
        chosen = None
        if work.choice and isinstance(work.method, Choosing):
            chosen, predictor = work.method.choose(model, data, visit)
            points[CHOSEN] = _scores(predictor, data)
        started = perf_counter()
        update = work.method.train(model, data, visit)
        seconds = perf_counter() - started
        if work.evaluate:
            points[TUNED] = _scores(update.predictor, data)
        summary = update.summary
        record = SiteRound(
            points=points,
            chosen=chosen,
            steps=summary.steps if summary else 0,
            cross_entropy=summary.cross_entropy if summary else None,
            alignment=summary.alignment if summary else None,
            embedding_norm=summary.mean_embedding_norm if summary else None,
            bytes_sent=0 if work.last else update.sent.size,
            seconds=seconds,
        )
        return Done(job.site, update.sent, update.kept, record)

    def _model_of(self, work: Work) -> Model:
        wanted = (work.method.study.model, work.method.study.data, work.method.study.classes, work.allowed_factories)
        if self._model is None or wanted != self._built:
            self._model, self._built = build(work.method.study, work.allowed_factories), wanted
        return self._model


def _scores(predictor: Predictor, data: SiteData) -> dict[str, Measured]:
    found = {TEST: _measured(predictor, data.test)}
    if data.validation is not None and len(data.validation):
        found[VALIDATION] = _measured(predictor, data.validation)
    return found


def _measured(predictor: Predictor, records: Records) -> Measured:
    try:
        probabilities = predictor(records.x)
    except NotFinite:
        raise Diverged(OUTPUT) from None
    if not np.isfinite(probabilities).all():
        raise Diverged(OUTPUT)
    scores = asdict(score(records.y, probabilities))
    return Measured.model_validate({key: scores[key] for key in Measured.model_fields})
