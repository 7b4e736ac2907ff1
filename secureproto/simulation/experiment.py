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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured, NotFound, Unavailable
from secureproto.regular import is_there, read_regular
from secureproto.simulation.baselines.catalogue import METHODS, make
from secureproto.simulation.baselines.fedavg_ft import FedAvgFineTuned, fine_tuned
from secureproto.simulation.definition import NAME, PARTITION, differing, encode, read
from secureproto.simulation.definition import Definition as Definition
from secureproto.simulation.disk import (
    DRAFT,
    RESTORE,
    entries,
    is_folder,
    make_directory,
    meddled_or_unavailable,
    read_owned,
    write_atomically,
)
from secureproto.simulation.engines.seam import Engine, Sites
from secureproto.simulation.history import History
from secureproto.simulation.method import Method
from secureproto.simulation.run import Claim, Run, RunOptions, Watch, claim, read_history, with_seed
from secureproto.simulation.saved_models import save_models
from secureproto.simulation.store import RunStore
from secureproto.study.file import digest, load
from secureproto.study.schema import StudyFile

STUDY, PICTURE = "study.toml", "partition.svg"
LONGEST = 120  # characters of a label: its directory's name, quoted, must fit a file system


class Experiment:
    """The experiment in a directory."""

    def __init__(self, directory: Path, definition: Definition) -> None:
        self.directory, self.definition = directory, definition
        self._digest = definition.digest()

    @classmethod
    def begin(cls, directory: Path, definition: Definition, study_text: bytes) -> "Experiment":
        """A new one, or the one that is there if it is the same.

        Raises:
            Conflict: the directory holds another experiment, or other files.
            IntegrityBroken: a file of it was changed, or is damaged.
            Unavailable: it cannot be read or written.
        """
        try:
            found = cls.open(directory)
        except NotFound:
            _demand_empty(directory)
            make_directory(directory)
            write_atomically(directory / STUDY, study_text)
            write_atomically(directory / NAME, encode(definition))
            found = cls.open(directory)
        other = differing(found.definition, definition)
        if other:
            hint = "give another --out"
            if other == [PARTITION]:
                hint += "; or the --sites, --per-site, seeds and split of this one: they settle who has which records"
            raise Conflict(f"{directory}: holds another experiment ({'; '.join(other)})", hint=hint)
        return found

    @classmethod
    def open(cls, directory: Path) -> "Experiment":
        """One that is there.

        Raises:
            NotFound: there is none.
            IntegrityBroken: its description, its study or its picture was changed, or is damaged.
            Unavailable: one of them cannot be read.
        """
        found = cls(directory, read(directory))
        found.study()
        _check_picture(directory / PICTURE)
        return found

    def study(self) -> StudyFile:
        """The study as the experiment runs it, with its own number of rounds.

        Raises:
            IntegrityBroken: the file is not the one that the experiment began with.
        """
        path = self.directory / STUDY
        text = read_owned(path)
        if digest(text) != self.definition.study_digest:
            raise IntegrityBroken(f"{path}: is not the study that this experiment began with", hint=RESTORE)
        return with_rounds(load(text, name=str(path)), self.definition.rounds)

    def store_path(self, label: str, seed: int) -> Path:
        """Where a run is kept."""
        return self._of_run("runs", label) / f"{seed}.sqlite"

    def histories(self) -> list[History]:
        """What all runs have left behind so far.

        Raises:
            IntegrityBroken: a run is damaged, or of another experiment. Unavailable: one cannot be read.
        """
        study, found = self.study(), []
        for path in self._runs():
            label, seed = unquote(path.parent.name), int(path.stem)
            claimed = Claim(label, seed, self._digest)
            found.append(read_history(path, claimed, title=make(label, study).title))
        return with_fine_tuned(found)

    def _runs(self) -> Iterator[Path]:
        for folder in entries(self.directory / "runs"):
            for path in entries(folder) if is_folder(folder) else ():
                # another name is a copy that somebody made
                if path.suffix == ".sqlite" and path.stem.isdecimal() and str(int(path.stem)) == path.stem:
                    yield path

    def ask(self, label: str, seed: int) -> None:
        """Note that a run is to be done, so that who compares before it was begun is told. Raises as `run`."""
        path = self.store_path(label, seed)
        if is_there(path):
            return
        make_directory(path.parent)
        store = RunStore(path)
        try:
            claim(store, path, Claim(label, seed, self._digest))
        finally:
            store.close()

    def run(self, label: str, seed: int, sites: Sites, engine: Engine, options: "Execution") -> None:
        """Bring one run to its end, and its models to disk. Raises as `run.Run.go`, and Conflict as RunStore."""
        path = self.store_path(label, seed)
        make_directory(path.parent)
        store = RunStore(path)
        try:
            claim(store, path, Claim(label, seed, self._digest))
            run = Run(make(label, with_seed(self.study(), seed)), sites, engine, store, options.run)
            run.go(options.watch, options.before_last)
            if options.models:
                save_models(store, self._of_run("models", label) / str(seed), sites.names)
        finally:
            store.close()

    def _of_run(self, kind: str, label: str) -> Path:
        return self.directory / kind / directory_name(label)


@dataclass(frozen=True)
class Execution:
    """How a run is done: `watch` and `before_last` as of `run.Run.go`, `models` says whether the last are written."""

    run: RunOptions
    watch: Watch
    models: bool = True
    before_last: Callable[[], None] = lambda: None


def directory_name(label: str) -> str:
    """What the directory of a method's runs is called."""
    return quote(label, safe="=,+-")


def runs_of(labels: Sequence[str], study: StudyFile) -> list[str]:
    """The labels of the runs that methods need, each once.

    Raises:
        Misconfigured: a label that names no method, or the same method twice, be it in other words.
    """
    made: dict[str, Method] = {}
    for label in labels:
        if labels.count(label) > 1:
            raise Misconfigured(f"method {label!r} is given twice")
        if len(directory_name(label)) > LONGEST:
            raise Misconfigured(
                f"method {label[:40]!r}…: over {LONGEST} characters", hint="put settings into the study"
            )
        method = make(label, study)
        same = next((other for other, before in made.items() if before == method), None)
        if same is not None:
            raise Misconfigured(f"method {label!r} is {same!r} in other words", hint="name it once")
        made[label] = method
        if method.study.training.alignment_warmup_rounds > study.rounds.total:
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


def _demand_empty(directory: Path) -> None:
    """Only what an experiment leaves that was killed before it began may lie where one is to begin."""
    try:
        others = [path for path in directory.iterdir() if path.name != STUDY and not path.name.endswith(DRAFT)]
    except (FileNotFoundError, NotADirectoryError):
        return  # making it says what is in the way
    except OSError as error:
        raise Unavailable(f"{directory}: cannot be read: {error.strerror}", hint="give another --out") from None
    if others:
        raise Conflict(f"{directory}: is not empty and holds no experiment", hint="give another --out")


def _check_picture(path: Path) -> None:
    """It is shown in a page as it is; who lost it gets it anew from `simulate run`."""
    try:
        read_regular(path).decode()
    except FileNotFoundError:
        return
    except UnicodeDecodeError:
        raise IntegrityBroken(f"{path}: is damaged", hint="remove it: simulate run draws it again") from None
    except OSError as error:
        raise meddled_or_unavailable(path, error) from None
