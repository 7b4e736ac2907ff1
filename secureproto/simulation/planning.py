"""What a person asks of a simulation, checked, and made ready: records, partition, methods, engine.

Invariant: everything that can be wrong with what was asked is found here, before anything is trained or written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from secureproto.data.settings import FOLD_SHARE, LONGER
from secureproto.errors import Misconfigured
from secureproto.learning.choice import KINDS, MARGIN
from secureproto.simulation.data.catalogue import known, read
from secureproto.simulation.data.reading import Reading, SourceOptions
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.engines.seam import Engine
from secureproto.simulation.experiment import runs_of, with_rounds
from secureproto.simulation.partition import file as partition_file
from secureproto.simulation.partition.assign import draw
from secureproto.simulation.partition.division import Divisions, Options, Split
from secureproto.simulation.partition.scheme import Scheme
from secureproto.simulation.partition.spec import is_file, parse
from secureproto.simulation.population import Pool
from secureproto.simulation.run import RunOptions, participants
from secureproto.study.file import load
from secureproto.study.schema import StudyFile

IN_EVERY_TABLE = ("majority", "local", "fedavg-ft")


class Asked(BaseModel):
    """The options that all verbs share, as the command line gives them (`secureproto simulate run --help`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    study: Path
    data: tuple[str, ...] = ()
    data_root: Path | None = None
    site_column: str | None = None
    split_column: str | None = None
    delimiter: str = ","
    partition: str = "natural"
    sites: int | None = None
    per_site: int | None = None
    split: Split | None = None
    test_share: float = 0.3
    repeated: bool = False
    validation: float = 0.0
    partition_seed: int = 0
    methods: tuple[str, ...] = ("protoaligned",)
    rounds: int | None = None
    seeds: int = 3
    first_seed: int = 0
    evaluate_every: int = 1
    choice: bool = True
    engine: Literal["inprocess", "ray"] = "inprocess"
    address: str | None = None
    workers: int | None = None
    factories: tuple[str, ...] = ()
    out: Path | None = None

    @property
    def named(self) -> list[str]:
        """The methods that were named, one by one: each may be given with commas or for itself."""
        return [label.strip() for text in self.methods for label in text.split(",") if label.strip()]

    @property
    def labels(self) -> list[str]:
        """The methods to run."""
        return self.named

    @property
    def seed_numbers(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)


@dataclass(frozen=True, eq=False)
class Ground:
    """What all runs stand on: the study with its rounds, the records, who has which."""

    study: StudyFile
    reading: Reading
    divisions: Divisions

    @property
    def pool(self) -> Pool:
        """All records."""
        return self.reading.pool

    def told(self) -> list[str]:
        """What is not as it was read: records left out, by reason and place, and values outside their range."""
        left_out = [f"records left out: {count} {reason}" for reason, count in self.reading.left_out.items()]
        clamped = [
            f"{name}: {count} value{'s' if count > 1 else ''} outside the study's range"
            for name, count in self.reading.clamped.items()
        ]
        held = _held_by_nobody(self.study.classes, self.divisions, self.pool)
        return [*left_out, *self.reading.notes, *clamped, *held, *_short_of_validation(self.divisions)]


def prepare(asked: Asked) -> Ground:
    """Read the study and the records, and draw or load the partition.

    Raises:
        Misconfigured: any of it is wrong, or does not fit together.
        Conflict, IntegrityBroken: a saved partition is of other records, or damaged.
    """
    study = load(asked.study)
    study = with_rounds(study, asked.rounds or study.rounds.total)
    if not asked.named:
        raise Misconfigured("no method is named", hint="give --methods protoaligned")
    runs_of(asked.labels, study)
    source = SourceOptions(asked.site_column, asked.split_column, asked.delimiter)
    reading = read(asked.data or (_own_data(study),), study, options=source, root=asked.data_root)
    ground = Ground(study, reading, _divisions(asked, reading.pool, study.classes))
    for seed in asked.seed_numbers:
        ground.divisions.of(seed)
    _demand_quorum(ground)
    return ground


def _own_data(study: StudyFile) -> str:
    """The built-in set that a study is for, by its name."""
    if study.name not in {one.name for one in known()}:
        raise Misconfigured(
            f"study {study.name} is for no built-in data set", hint="say where the records lie: --data"
        )
    return study.name


def _demand_quorum(ground: Ground) -> None:
    """Raise Misconfigured where a server would end every round without a result."""
    rounds = ground.study.rounds
    fewest = min(len(partition.sites) for partition in ground.divisions.partitions)
    if fewest < rounds.quorum:
        raise Misconfigured(
            f"study {ground.study.name}: rounds.quorum is {rounds.quorum}, and the partition has {fewest} "
            f"{'site' if fewest == 1 else 'sites'}: no round would count",
            hint=f"{rounds.quorum} sites or more, or rounds.quorum = {fewest} in a study file of your own",
        )


def require_validation(ground: Ground, why: str) -> None:
    """Raise Misconfigured where no site keeps validation records."""
    sites = (rows for partition in ground.divisions.partitions for rows in partition.sites.values())
    if not any(len(rows.validation) for rows in sites):
        raise Misconfigured(f"{why} needs validation records", hint="give --validation 0.2")


def _held_by_nobody(classes: Sequence[str], divisions: Divisions, pool: Pool) -> list[str]:
    """A line where the partition leaves out all records of a class."""
    y = pool.records.y
    rows = [part for site in divisions.partitions[0].sites.values() for part in (site.train, site.validation)]
    held = np.bincount(y[np.concatenate(rows)], minlength=len(classes))
    there = np.bincount(y, minlength=len(classes))
    lost = [f"{name} ({there[j]})" for j, name in enumerate(classes) if there[j] and not held[j]]
    return [f"partition: no site has records of {', '.join(lost)}"] if lost else []


def require_versions(ground: Ground, why: str) -> None:
    """Raise Misconfigured where one version alone is scored at all sites: the last."""
    sites = ground.divisions.partitions[0].sites
    if len(participants(ground.study, sites, 0)) < len(sites):
        raise Misconfigured(
            f"{why} has only the last version to choose from: a round takes {ground.study.rounds.participation:g} of "
            "the sites, and the others are not scored in it",
            hint="rounds.participation = 1, or --report last",
        )


def _short_of_validation(divisions: Divisions) -> list[str]:
    """A line where a site has clearly fewer validation records than the share that was asked for."""
    asked = divisions.partitions[0].options.validation_share
    sites = [(name, rows) for partition in divisions.partitions for name, rows in partition.sites.items()]
    short: dict[str, float] = {}
    for name, rows in sites:
        records = len(rows.train) + len(rows.validation)
        if round(asked * records) - len(rows.validation) > 1:
            short[name] = min(short.get(name, 1.0), len(rows.validation) / records)
    if not short:
        return []
    name = min(short, key=lambda site: (short[site], site))
    few = f"{len(short)} of {len(divisions.partitions[0].sites)} sites keep less than the {asked:g} asked for"
    return [f"validation: {few} ({name} {short[name]:.2f}): a class keeps a record to train on"]


def split_of(asked: Asked, pool: Pool) -> Split:
    """The kind of test part: as asked, else the data's own where they have one."""
    if asked.repeated and asked.split == "given":
        raise Misconfigured("--repeated draws a split for each seed, and --split given is the data's own")
    if asked.split is None:
        return "given" if pool.held_out is not None and not asked.repeated else "stratified"
    return asked.split


def open_engine(asked: Asked) -> Engine:
    """The engine that was asked for.

    Raises:
        Misconfigured: an option of Ray without it, or Ray is not installed.
        Unavailable: the cluster does not answer.
    """
    if asked.engine == "ray":
        from secureproto.simulation.engines.ray import RayEngine  # ray takes seconds to load

        return RayEngine(asked.address, asked.workers)
    for option, value in (("--address", asked.address), ("--workers", asked.workers)):
        if value is not None:
            raise Misconfigured(f"{option} is for --engine ray")
    return InProcess()


def how_sites_choose(asked: Asked) -> str:
    """As an experiment notes it: runs whose sites choose otherwise are not of one experiment."""
    if not asked.choice:
        return "no"
    return f"of {len(KINDS)}, longer {LONGER}, margin {MARGIN:g}, folds {FOLD_SHARE:g}"


def run_options(asked: Asked) -> RunOptions:
    """How the runs are done."""
    return RunOptions(asked.evaluate_every, asked.factories, asked.choice)


def _divisions(asked: Asked, pool: Pool, classes: Sequence[str]) -> Divisions:
    if is_file(asked.partition):
        _refuse_beside_a_file(asked)
        return partition_file.load(Path(asked.partition), pool)
    options = Options(
        sites=asked.sites,
        per_site=asked.per_site,
        split=split_of(asked, pool),
        test_share=asked.test_share,
        validation_share=asked.validation,
        seed=asked.partition_seed,
    )
    scheme = parse(asked.partition)
    options = _drawn_by(options, scheme)
    return draw(pool, scheme, options, classes=classes, seeds=list(asked.seed_numbers), repeated=asked.repeated)


def _drawn_by(options: Options, scheme: Scheme) -> Options:
    """Without what draws nothing here: partitions that are the same are called the same."""
    if options.split == "given":
        options = replace(options, test_share=Options.test_share)
        if scheme.keeps_sites and options.per_site is None and not options.validation_share:
            options = replace(options, seed=Options.seed)
    return options


def _refuse_beside_a_file(asked: Asked) -> None:
    """A saved partition says all of it itself."""
    for name in ("sites", "per_site", "split", "test_share", "repeated", "validation", "partition_seed"):
        if getattr(asked, name) != Asked.model_fields[name].default:
            option = "--" + name.replace("_", "-")
            raise Misconfigured(
                f"{option} is settled by the saved partition {asked.partition}", hint=f"leave {option} out"
            )
