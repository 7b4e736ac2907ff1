"""What the verbs `simulate run` and `simulate compare` do, from checked options to tables and files.

1. Study, records, partition, methods (`planning`): all that can be wrong is told before anything is trained.
2. The directory (`experiment`): a new one, or the same experiment gone on with.
3. Every method × seed (`experiment.Experiment.run`); one that diverges is noted, the others go on.
4. Summary, CSV, JSON, HTML page.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import Field

from secureproto.errors import Misconfigured, Partial, Unavailable
from secureproto.regular import is_there
from secureproto.simulation.baselines.catalogue import make
from secureproto.simulation.definition import NAME, Definition
from secureproto.simulation.disk import write_atomically
from secureproto.simulation.engines.seam import Engine
from secureproto.simulation.experiment import Execution, Experiment, runs_of
from secureproto.simulation.grouping import Group, grouped
from secureproto.simulation.history import method_name
from secureproto.simulation.holders import never_shared, one_class_tested
from secureproto.simulation.method import Choosing
from secureproto.simulation.page import page_of
from secureproto.simulation.partition import file as partition_file
from secureproto.simulation.partition.division import Divisions
from secureproto.simulation.partition.picture import draw as picture
from secureproto.simulation.planning import (
    IN_EVERY_TABLE,
    Asked,
    Ground,
    how_sites_choose,
    open_engine,
    prepare,
    require_validation,
    require_versions,
    run_options,
)
from secureproto.simulation.privacy import prices
from secureproto.simulation.progress import Progress
from secureproto.simulation.results import (
    NOT_COMPARED,
    Block,
    Part,
    Summary,
    across,
    blocks,
    rows,
    summarise,
    write_csv,
    write_json,
    write_summary,
)
from secureproto.simulation.results.reported import VALIDATED, Rule
from secureproto.simulation.run import RunOptions
from secureproto.study.file import digest, read

Say = Callable[[str], None]
Demand = Callable[[Ground], None]
PAGE = "report.html"
_TOLD = 5  # runs that did not end, one by one


class Request(Asked):
    """What `simulate run` was asked for."""

    without_baselines: bool = False
    models: bool = Field(default=True)

    @property
    def labels(self) -> list[str]:
        """The methods that were asked for, after those that every table carries."""
        asked = self.named
        return asked if self.without_baselines else [*(name for name in IN_EVERY_TABLE if name not in asked), *asked]


@dataclass(frozen=True)
class Reporting:
    """How results are told: the reported version, a target accuracy, the method to compare with.

    Raises:
        Misconfigured: a target that is no accuracy.
    """

    rule: Rule = "last"
    target: float | None = None
    reference: str = "local"

    def __post_init__(self) -> None:
        if self.target is not None and not 0 <= self.target <= 1:  # not a number, for one
            raise Misconfigured("--target is an accuracy from 0 to 1")


@dataclass(frozen=True)
class Found:
    """The results of an experiment, or of several: a part for each partition, in the order in which they came.

    `asked`: the runs that were to be done now; None where none were, and all count.
    """

    parts: tuple[Part, ...]
    asked: frozenset[tuple[str, int]] | None = None

    @property
    def summary(self) -> Summary:
        """The summary of the only partition. Raises ValueError where there are several."""
        (part,) = self.parts
        return part.summary

    def blocks(self) -> list[Block]:
        """For a terminal."""
        return blocks(self.parts)

    def rows(self) -> list[dict[str, object]]:
        """For a program that reads lines: one a partition, method, point and measure."""
        return rows(self.parts)

    def as_json(self) -> dict[str, object]:
        """For a program that reads one document: the summary, or with several partitions one for each of them and
        the methods across them."""
        if len(self.parts) == 1:
            return asdict(self.summary)
        return {
            "note": NOT_COMPARED,
            "partitions": [
                {"name": one.name, "heading": one.heading, "digest": one.digest, **asdict(one.summary)}
                for one in self.parts
            ],
            "across": [asdict(one) for one in across(self.parts)],
        }

    def check(self) -> None:
        """Raise Partial if a run that was asked for did not come to its end."""
        failures = [
            one
            for part in self.parts
            for one in part.summary.failures
            if not one.derived and (self.asked is None or (one.method, one.seed) in self.asked)
        ]
        if failures:
            told = "; ".join(f"{one.method} with seed {one.seed}: {one.reason}" for one in failures[:_TOLD])
            more = f"; and {len(failures) - _TOLD} more" if len(failures) > _TOLD else ""
            raise Partial(f"{len(failures)} of the runs did not end: {told}{more}")


def perform(request: Request, reporting: Reporting, say: Say) -> Found:
    """Everything `simulate run` does.

    Raises:
        Misconfigured, Unavailable: what was asked cannot be done.
        Conflict: the directory holds another experiment, or another process works on one of its runs.
        IntegrityBroken: a file of it is damaged.
    """
    _check(request, reporting)
    demand = _something_to_choose_by if reporting.rule == VALIDATED else lambda _: None
    with (
        _directory(request.out) as directory,
        session(request, directory, say, models=request.models, demand=demand) as opened,
    ):
        labels = runs_of(request.labels, opened.ground.study)
        asked = [(label, seed) for seed in request.seed_numbers for label in labels]
        for label, seed in asked:
            opened.experiment.ask(label, seed)
        for number, (label, seed) in enumerate(asked, 1):
            opened.go(label, seed, f"{number}/{len(asked)} ")
        groups = grouped([opened.experiment])
        found = replace(_found(groups, reporting), asked=frozenset(asked))
        _write(opened.experiment, groups, found)
    if request.out is not None:
        say(f"{request.out / PAGE}: open it in any browser; it needs no network")
    return found


def compare_directories(directories: Sequence[Path], reporting: Reporting, out: Path | None, say: Say) -> Found:
    """Everything `simulate compare` does; methods are compared within a partition only (`grouping`).

    Raises:
        NotFound: a directory holds no experiment. IntegrityBroken: a file of one is damaged.
        Misconfigured: nothing was run yet, two directories have one name, or the reference is no method of them.
    """
    experiments = [Experiment.open(directory) for directory in directories]
    for experiment in experiments:
        partition_file.check(experiment.directory / "partition.json", experiment.definition.partition_digest)
    groups = grouped(experiments)
    found = _found(groups, reporting)
    if out is not None:
        write_atomically(out, page_of(found.parts, groups).encode())
        say(f"{out}: open it in any browser; it needs no network")
    return found


@dataclass(frozen=True, eq=False)
class Session:
    """An experiment that is being worked on."""

    experiment: Experiment
    ground: Ground
    engine: Engine
    options: RunOptions
    say: Say
    models: bool

    def go(self, label: str, seed: int, place: str = "") -> None:
        """Bring one run to its end, telling of every round that was scored. Raises as `Experiment.run`.

        `place`: which of how many runs it is, before each line.
        """
        sites = self.ground.divisions.of(seed).population(self.ground.pool)
        study = self.ground.study
        choosing = self.options.choice and isinstance(make(label, study), Choosing)
        progress = Progress(f"{place}{label}, seed {seed}", study, self.say, choosing=choosing)
        execution = Execution(self.options, progress, self.models, progress.before_last)
        self.experiment.run(label, seed, sites, self.engine, execution)


@contextmanager
def session(
    asked: Asked, directory: Path, say: Say, *, models: bool = False, demand: Demand = lambda _: None
) -> Iterator[Session]:
    """What was asked, checked, in its directory, with an engine that is closed afterwards. Raises as `perform`.

    `demand`: raises where the ground lacks what is needed.
    """
    ground = prepare(asked)
    demand(ground)
    priced = prices(asked.labels, ground.study, _largest(ground.divisions))
    engine = open_engine(asked)
    try:
        experiment = _begin(directory, asked, ground)
        y = ground.pool.records.y
        told = one_class_tested(ground.study.classes, ground.divisions, y)
        told += never_shared(asked.labels, ground.study, ground.divisions, y)
        for line in (*ground.told(), *told, *priced):
            say(line)
        yield Session(experiment, ground, engine, run_options(asked), say, models)
    finally:
        engine.close()


def _begin(directory: Path, asked: Asked, ground: Ground) -> Experiment:
    """The directory of what was asked, with its partition on disk."""
    text = read(asked.study)
    path = directory / "partition.json"
    partition = ground.divisions.partitions[0]
    definition = Definition(
        study=ground.study.name,
        study_digest=digest(text),
        # a name that is no text is shown as what can be: what counts is the records' digest
        data=tuple(name.encode(errors="replace").decode() for name in asked.data or (ground.study.name,)),
        pool_digest=partition.pool,
        partition=partition.scheme,
        partition_digest=partition_file.digest_of(ground.divisions),
        split=partition.options.split,
        rounds=ground.study.rounds.total,
        evaluate_every=asked.evaluate_every,
        choice=how_sites_choose(asked),
        redrawn_ratio=_ratio(ground.divisions),
    )
    experiment = Experiment.begin(directory, definition, text)
    if not path.exists():
        write_atomically(path, partition_file.encode(ground.divisions))
    partition_file.check(path, definition.partition_digest)
    if not path.with_suffix(".svg").exists():
        drawn = picture(partition, ground.pool.records.y, ground.study.classes)
        write_atomically(path.with_suffix(".svg"), drawn.encode())
    return experiment


def _largest(divisions: Divisions) -> int:
    """The training records of the largest site."""
    return max(len(rows.train) for partition in divisions.partitions for rows in partition.sites.values())


def _ratio(divisions: Divisions) -> float | None:
    """n_test / n_train where each seed has a split of its own: of all records that are tested and trained on, for a
    part kept for validation or left out by --per-site is in neither."""
    if not divisions.repeated:
        return None
    sites = [rows for partition in divisions.partitions for rows in partition.sites.values()]
    return sum(len(rows.test) for rows in sites) / sum(len(rows.train) for rows in sites)


def _check(request: Request, reporting: Reporting) -> None:
    """What can be wrong with how results are to be told."""
    if reporting.reference != "local" and reporting.reference not in set(_names(request)):
        raise Misconfigured(
            f"--reference {reporting.reference}: is none of the methods", hint="name one of --methods"
        )


def _names(request: Request) -> Iterator[str]:
    """What methods of the table can be called: those asked for, with FedAvg where it is trained for its fine-tuning,
    and those that the directory has."""
    there = request.out is not None and is_there(request.out / NAME)
    held = [one.method for one in Experiment.open(request.out).histories()] if there and request.out else []
    for label in (*request.labels, *held):
        yield from (label, method_name(label))
        if method_name(label) == "fedavg-ft":
            yield from ("fedavg", label.replace("fedavg-ft", "fedavg", 1))


def _something_to_choose_by(ground: Ground) -> None:
    """Raises Misconfigured where the reported version cannot be chosen by validation records."""
    require_validation(ground, "--report validation")
    require_versions(ground, "--report validation")


def _found(groups: Sequence[Group], reporting: Reporting) -> Found:
    parts, known = [], False
    for group in groups:
        reference = group.reference(reporting.reference)
        known = known or reference is not None
        summary = summarise(
            group.histories,
            rule=reporting.rule,
            reference=reference,
            target=reporting.target,
            redrawn=group.definition.redrawn_ratio,
        )
        parts.append(Part(group.name, group.heading, group.digest, group.kind, summary, group.histories))
    if not any(part.histories for part in parts):
        raise Misconfigured("compare: nothing was run yet", hint="simulate run … --out DIR")
    if not known and reporting.reference != Reporting.reference:
        raise Misconfigured(f"--reference {reporting.reference}: is none of the methods", hint="name one of them")
    return Found(tuple(parts))


def _write(experiment: Experiment, groups: Sequence[Group], found: Found) -> None:
    directory = experiment.directory
    write_csv(directory / "results.csv", found.parts[0].histories)
    write_summary(directory / "summary.csv", found.parts)
    write_json(
        directory / "results.json", found.summary, {"experiment": experiment.definition.model_dump(mode="json")}
    )
    write_atomically(directory / PAGE, page_of(found.parts, groups).encode())


@contextmanager
def _directory(out: Path | None) -> Iterator[Path]:
    """The directory that was asked for, or one that is gone afterwards."""
    if out is not None:
        yield out
        return
    try:
        held = TemporaryDirectory(prefix="secureproto-simulation-")
    except OSError as error:
        raise Unavailable(f"no room for the runs: {error.strerror}", hint="give --out, or set TMPDIR") from None
    with held as name:
        yield Path(name)
