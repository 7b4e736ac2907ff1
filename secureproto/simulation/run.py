"""One run: a method with one seed over all rounds, resumed where it was, the same on any engine.

    1. The study's first weights, or the state of the last whole round.
    2. In each round: participants, their jobs by the engine, the method's aggregation, one transaction (`_round`).
    3. After the last: every site is scored as received, after one more local training, and as it chooses (`_last`).

Invariants: an interrupted run that goes on gives the numbers of one that was not; all methods draw the same
participants and the same order of records; nothing a site is scored on decides anything here.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from time import perf_counter

import numpy as np

from secureproto import __version__
from secureproto.aggregation.stopping import StoppingRule, decide
from secureproto.errors import Conflict, IntegrityBroken, Rejected
from secureproto.learning.model import build
from secureproto.learning.training import Diverged
from secureproto.simulation.engines.seam import Done, Engine, Job, Sites, Work
from secureproto.simulation.history import History, RoundRecord, SiteRound
from secureproto.simulation.method import Central, Combined, Method, Sent
from secureproto.simulation.store import FORMAT, SHARED, RunStore
from secureproto.study.schema import StudyFile
from secureproto.wire.reasons import Reason

RELATION_KEPT = 64  # sites; a heat map of more cannot be read
PERSONAL, KEPT = "personal/", "kept/"
FAILURE, COMPLETE = "failure", "complete"
METHOD, SEED, EXPERIMENT, PROGRAM = "method", "seed", "experiment", "program"
AGAIN = "remove it and run again"

Watch = Callable[[RoundRecord], None]


@dataclass(frozen=True)
class RunOptions:
    """`evaluate_every`: every so many rounds the sites are scored, and after the last.

    `allowed_factories`: as in `learning.model.build`. `choice`: after the last round the sites of a method that can
    choose what they use (`method.Choosing`) do so, at the cost of some fifty local trainings each.
    """

    evaluate_every: int = 1
    allowed_factories: tuple[str, ...] = ()
    choice: bool = True


@dataclass(frozen=True)
class Claim:
    """Whose a run is. `experiment`: the digest of its definition; empty for a run that is in none."""

    method: str
    seed: int
    experiment: str = ""

    def facts(self) -> dict[str, str]:
        """As the run notes them."""
        of = {EXPERIMENT: self.experiment} if self.experiment else {}
        return {METHOD: self.method, SEED: str(self.seed), **of}


def with_seed(study: StudyFile, seed: int) -> StudyFile:
    """The same study with other first weights and another order of records."""
    return study.model_copy(update={"model": study.model.model_copy(update={"seed": seed})})


def participants(study: StudyFile, sites: Collection[str], round_number: int) -> list[str]:
    """The sites of a round, sorted: a share of `participation`, at least the quorum, drawn from the study's seed."""
    ordered = sorted(sites)
    wanted = max(ceil(study.rounds.participation * len(ordered)), study.rounds.quorum)
    if wanted >= len(ordered):
        return ordered
    numbers = np.random.default_rng([study.model.seed, round_number])
    return sorted(numbers.choice(ordered, size=wanted, replace=False).tolist())


class Run:
    """A run over its store."""

    def __init__(
        self, method: Method, sites: Sites, engine: Engine, store: RunStore, options: RunOptions | None = None
    ) -> None:
        self._method, self._sites, self._engine, self._store = method, sites, engine, store
        self._options = options or RunOptions()
        self._study = method.study

    def go(self, watch: Watch = lambda _: None, before_last: Callable[[], None] = lambda: None) -> None:
        """To the end, from wherever it is. A run that diverged is left as it is.

        `watch` hears of every round that is done; `before_last` is called when the sites are about to be scored, and
        to choose, after the last round: that takes longer than a round.

        Raises:
            Misconfigured, PolicyDenied: the model cannot be built, or a site cannot be trained.
        """
        if self._store.fact("format") is None:
            self._begin()
        try:
            while not self.over:
                watch(self._next(before_last))
        except Diverged as error:
            self._diverged(f"{error.term} is {error.how}")
        except Rejected as error:
            if error.reason not in (Reason.NON_FINITE, Reason.NORM_BOUND):
                raise
            self._diverged(error.message)

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self._store.fact(FAILURE) is not None or self._store.fact(COMPLETE) is not None

    def _diverged(self, how: str) -> None:
        self._store.note(FAILURE, f"diverged in round {self._store.rounds_done()}: {how}")

    def _begin(self) -> None:
        shared, personal = self._method.begin(build(self._study, self._options.allowed_factories))
        with self._store.transaction():
            self._store.put(SHARED, shared)
            self._store.put(PERSONAL, personal)
            self._store.note("format", str(FORMAT))

    def _next(self, before_last: Callable[[], None]) -> RoundRecord:
        number = self._store.rounds_done()
        losses = [record.loss for record in self._store.rounds()] if self._study.stopping else []
        if decide(_rule(self._study, losses), rounds_completed=number, losses=_known(losses)) is None:
            return self._round(number)
        before_last()
        return self._last(number)

    def _round(self, number: int) -> RoundRecord:
        started, records = perf_counter(), dict[str, SiteRound]()
        chosen = self._participants(number)
        work = self._work(number, evaluate=number % self._options.evaluate_every == 0)
        with self._store.transaction():
            uploads = self._taken(self._engine.perform(work, self._jobs(chosen)), records)
            combined = self._combined(work, chosen, uploads)
            self._publish(combined)
            record = RoundRecord(
                number=number,
                sites=records,
                relation=_kept_relation(combined),
                loss=combined.loss,
                seconds=perf_counter() - started,
            )
            self._store.add_round(record)
        return record

    def _participants(self, number: int) -> list[str]:
        if isinstance(self._method, Central):
            return sorted(self._sites.names)  # what lies in one place takes part in every round
        return participants(self._study, self._sites.names, number)

    def _combined(self, work: Work, chosen: Sequence[str], uploads: Iterable[tuple[str, Sent]]) -> Combined:
        combined = self._method.combine(work.shared, chosen, uploads)
        if not isinstance(self._method, Central):
            return combined
        model = build(self._study, self._options.allowed_factories)
        records = [self._sites.site(name).train for name in chosen]
        return self._method.learn(model, work.shared, records, work.round_number)

    def _last(self, number: int) -> RoundRecord:
        started, records = perf_counter(), dict[str, SiteRound]()
        work = self._work(number, evaluate=True, last=True)
        for done in self._engine.perform(work, self._jobs(self._sites.names)):
            records[done.site] = done.record
        record = RoundRecord(number=number, sites=records, seconds=perf_counter() - started)
        with self._store.transaction():
            self._store.add_round(record)
            self._store.note(COMPLETE, "yes")
        return record

    def _work(self, number: int, *, evaluate: bool, last: bool = False) -> Work:
        shared = self._store.get(SHARED)
        return Work(
            self._method,
            self._sites,
            number,
            shared,
            evaluate,
            last=last,
            choice=last and self._options.choice,
            allowed_factories=self._options.allowed_factories,
        )

    def _jobs(self, names: Iterable[str]) -> Iterator[Job]:
        for site in names:
            personal = self._store.get(PERSONAL + site) or self._store.get(PERSONAL)
            yield Job(site, personal, self._store.get(KEPT + site))

    def _taken(self, results: Iterable[Done], records: dict[str, SiteRound]) -> Iterator[tuple[str, Sent]]:
        """What goes to the server, one site after the other; what stays is put away on the way."""
        for done in results:
            records[done.site] = done.record
            if done.kept:
                self._store.put(KEPT + done.site, done.kept)
            yield done.site, done.sent

    def _publish(self, combined: Combined) -> None:
        self._store.put(SHARED, combined.shared)
        for site, arrays in combined.personal.items():
            self._store.put(PERSONAL + site, arrays)


def history(store: RunStore, *, method: str, title: str, seed: int) -> History:
    """What a run left behind."""
    return History(
        method=method,
        title=title,
        seed=seed,
        rounds=store.rounds(),
        complete=store.fact(COMPLETE) is not None,
        failure=store.fact(FAILURE),
    )


def claim(store: RunStore, path: Path, claimed: Claim) -> None:
    """Note whose run it is when it is begun, and later check that it still is.

    Raises:
        IntegrityBroken: it is the run of another method, seed or experiment.
        Conflict: of another version of this program.
    """
    if store.fact(METHOD) is None and not store.rounds_done():
        with store.transaction():
            for key, value in {**claimed.facts(), PROGRAM: __version__}.items():
                store.note(key, value)
    _check(store, path, claimed)
    if store.fact(PROGRAM) != __version__:
        raise Conflict(f"{path}: begun by another version of this program", hint="give another --out")


def _check(store: RunStore, path: Path, claimed: Claim) -> None:
    # a run that no experiment has claimed yet is nobody's
    wrong = [key for key, value in claimed.facts().items() if store.fact(key) not in (None, value)]
    if wrong == [EXPERIMENT]:
        raise IntegrityBroken(
            f"{path}: is the run of another experiment: it, or experiment.json, was changed",
            hint=f"restore experiment.json; or {AGAIN}",
        )
    if wrong:
        raise IntegrityBroken(f"{path}: is the run of another method or seed", hint=AGAIN)
    if store.fact(METHOD) is not None and store.fact(EXPERIMENT) is None and claimed.experiment:
        raise IntegrityBroken(f"{path}: does not say of which experiment it is", hint=AGAIN)


def read_history(path: Path, claimed: Claim, *, title: str) -> History:
    """What the run at `path` has left behind so far, also while another process works on it.

    Raises:
        IntegrityBroken: it is damaged, or the run of another method, seed or experiment.
        Unavailable: it cannot be read now.
    """
    store = RunStore(path, reading=True)
    try:
        _check(store, path, claimed)
        return history(store, method=claimed.method, title=title, seed=claimed.seed)
    finally:
        store.close()


def _kept_relation(combined: Combined) -> tuple[tuple[float, ...], ...] | None:
    if combined.relation is None or len(combined.relation) > RELATION_KEPT:
        return None
    return tuple(tuple(round(float(value), 6) for value in row) for row in combined.relation)


def _rule(study: StudyFile, losses: Sequence[float | None]) -> StoppingRule:
    """The study's rule; for a method whose sites report no loss, its number of rounds alone."""
    if study.stopping is None or None in losses:
        return StoppingRule(study.rounds.total)
    return StoppingRule(study.rounds.total, study.stopping.relative_tolerance, study.stopping.patience)


def _known(losses: Sequence[float | None]) -> list[float]:
    return [loss for loss in losses if loss is not None]
