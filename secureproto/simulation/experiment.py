"""An experiment: methods × seeds over one study, one data set and one partition, in a directory.

    OUT/
      experiment.json     what is compared: digests of study, data and partition, how sites are scored
      study.toml          the study file, byte for byte
      partition.json      who holds which records; partition.svg is its picture
      runs/METHOD/SEED.sqlite
      models/METHOD/SEED/…safetensors
      results.csv  rounds.csv  results.json  report.html

Invariants: a directory holds one experiment; more methods and more seeds may be added to it, and what is done is not
done again; every method runs on the same partition; what is compared is on disk before anything is trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured, NotFound, Unavailable
from secureproto.simulation.baselines.catalogue import METHODS, make
from secureproto.simulation.baselines.fedavg_ft import FedAvgFineTuned, fine_tuned
from secureproto.simulation.engines.seam import Engine, Sites
from secureproto.simulation.history import History
from secureproto.simulation.run import Run, RunOptions, Watch, claim, read_history, with_seed
from secureproto.simulation.saved_models import save_models
from secureproto.simulation.store import RunStore
from secureproto.study.file import digest, load, read
from secureproto.study.schema import StudyFile

DRAFT = ".draft"
LONGEST = 120  # characters of a label: its directory's name, quoted, must fit a file system


class Definition(BaseModel):
    """What makes two experiments the same. `redrawn_ratio`: n_test/n_train where each seed has its own split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    study: str
    study_digest: str
    data: tuple[str, ...]
    pool_digest: str
    partition: str
    partition_digest: str
    split: str
    rounds: int
    evaluate_every: int
    redrawn_ratio: Annotated[float, Field(gt=0)] | None = None


class Experiment:
    """The experiment in a directory."""

    def __init__(self, directory: Path, definition: Definition) -> None:
        self.directory, self.definition = directory, definition

    @classmethod
    def begin(cls, directory: Path, definition: Definition, study_text: bytes) -> "Experiment":
        """A new one, or the one that is there if it is the same.

        Raises:
            Conflict: the directory holds another experiment, or other files.
            IntegrityBroken: its description is damaged.
        """
        path = directory / "experiment.json"
        if not path.exists():
            if directory.exists() and any(not _began(path.name) for path in directory.iterdir()):
                raise Conflict(f"{directory}: is not empty and holds no experiment", hint="give another --out")
            make_directory(directory)
            write_atomically(directory / "study.toml", study_text)
            write_atomically(path, definition.model_dump_json(indent=1).encode())
        found = cls.open(directory)
        differing = [
            key
            for key in Definition.model_fields
            if getattr(found.definition, key) != getattr(definition, key) and not key.endswith("digest")
        ] or [key for key in Definition.model_fields if getattr(found.definition, key) != getattr(definition, key)]
        if differing:
            raise Conflict(
                f"{directory}: holds another experiment (another {', '.join(differing)})", hint="give another --out"
            )
        return found

    @classmethod
    def open(cls, directory: Path) -> "Experiment":
        """One that is there.

        Raises:
            NotFound: there is none.
            IntegrityBroken: its description is damaged.
        """
        path = directory / "experiment.json"
        try:
            return cls(directory, Definition.model_validate_json(path.read_bytes()))
        except FileNotFoundError:
            raise NotFound(f"{directory}: holds no experiment", hint="make one with simulate run --out") from None
        except ValidationError as error:
            raise IntegrityBroken(
                f"{path}: damaged ({error.error_count()} faults)", hint="run again elsewhere"
            ) from None

    def study(self) -> StudyFile:
        """The study as the experiment runs it, with its own number of rounds.

        Raises:
            IntegrityBroken: the file is not the one that the experiment began with.
        """
        path = self.directory / "study.toml"
        if digest(read(path)) != self.definition.study_digest:
            raise IntegrityBroken(f"{path}: is not the study that this experiment began with")
        return with_rounds(load(path), self.definition.rounds)

    def store_path(self, label: str, seed: int) -> Path:
        """Where a run is kept."""
        return self._of_run("runs", label) / f"{seed}.sqlite"

    def histories(self) -> list[History]:
        """What all runs have left behind so far. Raises IntegrityBroken for a damaged run."""
        study, found = self.study(), []
        for path in self.directory.glob("runs/*/*.sqlite"):
            label = unquote(path.parent.name)
            if not path.stem.isdecimal() or str(int(path.stem)) != path.stem:
                continue  # a copy that somebody made
            title = make(label, study).title
            found.append(read_history(path, method=label, title=title, seed=int(path.stem)))
        return with_fine_tuned(found)

    def run(self, label: str, seed: int, sites: Sites, engine: Engine, options: "Execution") -> None:
        """Bring one run to its end, and its models to disk. Raises as `run.Run.go`, and Conflict as RunStore."""
        path = self.store_path(label, seed)
        make_directory(path.parent)
        store = RunStore(path)
        try:
            claim(store, path, method=label, seed=seed)
            run = Run(make(label, with_seed(self.study(), seed)), sites, engine, store, options.run)
            run.go(options.watch)
            if options.models:
                save_models(store, self._of_run("models", label) / str(seed), sites.names)
        finally:
            store.close()

    def _of_run(self, kind: str, label: str) -> Path:
        return self.directory / kind / quote(label, safe="=,+-")


@dataclass(frozen=True)
class Execution:
    """How a run is done: `watch` hears of every round, `models` says whether the last ones are written."""

    run: RunOptions
    watch: Watch
    models: bool = True


def runs_of(labels: Sequence[str], study: StudyFile) -> list[str]:
    """The labels of the runs that methods need, each once.

    Raises:
        Misconfigured: a label that names no method, or the same method twice.
    """
    for label in labels:
        if labels.count(label) > 1:
            raise Misconfigured(f"method {label!r} is given twice")
        if len(quote(label)) > LONGEST:
            raise Misconfigured(
                f"method {label[:40]!r}…: over {LONGEST} characters", hint="put settings into the study"
            )
        if make(label, study).study.training.alignment_warmup_rounds > study.rounds.total:
            raise Misconfigured(f"method {label!r}: its warm-up is longer than the {study.rounds.total} rounds")
    return list(dict.fromkeys(_runs_as(label, study) for label in labels))


def _runs_as(label: str, study: StudyFile) -> str:
    """The label of the run that a method is read from: its own, but for FedAvg with fine-tuning."""
    if not isinstance(make(label, study), FedAvgFineTuned):
        return label
    _, colon, rest = label.partition(":")
    return FedAvgFineTuned.runs_as + colon + rest


def with_fine_tuned(histories: Sequence[History]) -> list[History]:
    """The histories, in the order of the catalogue, with FedAvg + fine-tuning read from every run of FedAvg."""
    found = list(histories)
    for one in histories:
        name, colon, rest = one.method.partition(":")
        if name == FedAvgFineTuned.runs_as:
            found.append(fine_tuned(one, "fedavg-ft" + colon + rest))
    order = list(METHODS)
    return sorted(found, key=lambda one: (order.index(one.method.partition(":")[0]), one.method, one.seed))


def with_rounds(study: StudyFile, rounds: int) -> StudyFile:
    """The study with another number of rounds.

    Raises:
        Misconfigured: fewer than its warm-up, or than its stopping rule can need.
    """
    if rounds < 1 or study.training.alignment_warmup_rounds > rounds:
        raise Misconfigured(f"--rounds {rounds}: fewer than the study's warm-up of the alignment term, or none")
    if study.stopping is not None and study.stopping.patience >= rounds:
        raise Misconfigured(f"--rounds {rounds}: not more than the study's stopping.patience")
    return study.model_copy(update={"rounds": study.rounds.model_copy(update={"total": rounds})})


def make_directory(path: Path) -> None:
    """Make a directory and those above it. Raises Unavailable when the disk will not have it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"cannot make {path}: {error.strerror}", hint="check the path, its owner and the disk"
        ) from None


def write_atomically(path: Path, data: bytes) -> None:
    """Give `path` the content `data`: a reader sees the old content or the new one, never a part.

    Raises:
        Unavailable: the disk will not take it; then what was there stays.
    """
    draft = path.with_name(f".{path.name}{DRAFT}")
    try:
        try:
            draft.write_bytes(data)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(
            f"cannot write {path}: {error.strerror}", hint="check the path, its owner and the disk"
        ) from None


def _began(name: str) -> bool:
    """Whether a file is one that an experiment leaves which was killed before it began."""
    return name == "study.toml" or name.endswith(DRAFT)
