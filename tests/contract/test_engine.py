"""Every engine keeps the promises of `secureproto.simulation.engines.seam`: order, numbers, laziness, errors."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from secureproto.errors import PolicyDenied, Unavailable
from secureproto.learning.dataset import Records
from secureproto.learning.model import build
from secureproto.learning.training import Diverged
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.engines import ray as ray_engine
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.engines.ray import RayEngine
from secureproto.simulation.engines.seam import Engine, Job, Sites, Work
from secureproto.simulation.history import History
from secureproto.simulation.method import Method
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.simulation.run import Run
from secureproto.simulation.store import RunStore
from support import joining
from support.learning import blobs, image_study, tabular_study
from support.private_study import private_study
from support.simulated import ArrayBytes, Deadly, Slow, Wrong, arrays_of, history_of, population
from support.tree import ROOT

WORKERS = 2
STUDY = tabular_study(rounds={"total": 2, "participation": 0.7}, training={"local_epochs": 1})
SITES = population(12, 20, 9, 14, 30, 7)
NAMES = SITES.names


def ran(method: Method, sites: Sites, engine: Engine) -> tuple[ArrayBytes, History]:
    """What a whole run leaves, but for the time it took."""
    store = RunStore()
    try:
        Run(method, sites, engine, store).go()
        return arrays_of(store, sites), history_of(store)
    finally:
        store.close()


def work(method: Method, sites: Sites = SITES, *, evaluate: bool = False) -> Work:
    """Round 0 of a method."""
    return Work(method, sites, 0, method.begin(build(method.study))[0], evaluate)


def pictures(n: int, seed: int) -> Records:
    """Images of 16 × 16 in grey."""
    flat = blobs(n, width=256, seed=seed)
    return Records(flat.x.reshape(n, 1, 16, 16), flat.y)


def until(done: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    end = monotonic() + 120
    while not done():
        assert monotonic() < end, "not within the time"
        sleep(0.05)


def jobs(names: Sequence[str]) -> Iterator[Job]:
    return (Job(name, {}) for name in names)


class EngineContract:
    """What any engine must pass; a subclass gives `engine`, and says how far ahead of the results it may read."""

    AHEAD: int

    def test_results_come_in_the_order_of_the_jobs(self, engine: Engine) -> None:
        names = [*reversed(NAMES), *NAMES]
        found = engine.perform(work(Slow(STUDY, seconds=0.3, victims=("site-5",))), jobs(names))
        assert [done.site for done in found] == names

    def test_jobs_are_read_as_results_are_taken(self, engine: Engine) -> None:
        read: list[str] = []

        def noted() -> Iterator[Job]:
            for name in NAMES * 4:
                read.append(name)
                yield Job(name, {})

        taken = 0
        for _ in engine.perform(work(FedAvg(STUDY)), noted()):
            taken += 1
            assert taken <= len(read) <= taken + self.AHEAD
        assert taken == len(read) == 24

    @pytest.mark.parametrize("kind", [FedAvg, Local, ProtoAligned], ids=lambda kind: str(kind.__name__))
    def test_a_run_has_the_numbers_of_any_other_engine(self, engine: Engine, kind: type[FedAvg]) -> None:
        assert ran(kind(STUDY), SITES, engine) == ran(kind(STUDY), SITES, InProcess())

    def test_a_private_run_too(self, engine: Engine) -> None:
        method = ProtoAligned(private_study(rounds={"total": 2}))
        assert ran(method, SITES, engine) == ran(method, SITES, InProcess())

    def test_images_too_and_records_that_are_at_hand(self, engine: Engine) -> None:
        study = image_study("cnn", shape=(1, 16, 16), classes=3, width=8)
        study = study.model_copy(update={"rounds": study.rounds.model_copy(update={"total": 1})})
        parts = [[pictures(size, seed) for size in (9, 6)] for seed in range(2)]
        sites = GivenSites({f"site-{number}": SiteData(*both) for number, both in enumerate(parts)})
        expected = ran(FedAvg(study), sites, InProcess())
        for _ in range(2):  # after other sites and another model, and the other way round
            assert ran(FedAvg(STUDY), SITES, engine) == ran(FedAvg(STUDY), SITES, InProcess())
            assert ran(FedAvg(study), sites, engine) == expected

    def test_divergence_is_raised_as_what_it_is_and_the_engine_goes_on(self, engine: Engine) -> None:
        training = {"learning_rate": 1e30, "local_epochs": 3}
        with pytest.raises(Diverged, match="diverged, the cross entropy is no longer finite") as caught:
            list(engine.perform(work(FedAvg(tabular_study(training=training))), jobs(NAMES)))
        assert type(caught.value) is Diverged
        assert caught.value.term == "the cross entropy"
        assert ran(FedAvg(STUDY), SITES, engine) == ran(FedAvg(STUDY), SITES, InProcess())

    def test_a_model_that_gives_no_numbers_has_diverged(self, engine: Engine) -> None:
        study = tabular_study(training={"learning_rate": 1e30, "local_epochs": None, "local_steps": 1})
        with pytest.raises(Diverged, match="a model's output is no longer finite"):
            list(engine.perform(work(FedAvg(study), evaluate=True), jobs(NAMES)))

    def test_a_refusal_keeps_its_reasons_and_its_hint(self, engine: Engine) -> None:
        study = tabular_study(model={"name": "support.tiny_model:factory"})
        shared = FedAvg(STUDY).begin(build(STUDY))[0]
        with pytest.raises(PolicyDenied) as caught:
            list(engine.perform(Work(FedAvg(study), SITES, 0, shared, False), jobs(["site-0"])))
        with pytest.raises(PolicyDenied) as expected:
            build(study)
        assert (caught.value.reasons, caught.value.hint) == (expected.value.reasons, expected.value.hint)

    def test_a_fault_of_a_method_is_raised_as_it_is(self, engine: Engine) -> None:
        with pytest.raises(ZeroDivisionError, match="at site-0"):
            list(engine.perform(work(Wrong(STUDY)), jobs(["site-0"])))

    def test_a_round_may_be_left_in_its_middle(self, engine: Engine) -> None:
        results = engine.perform(work(FedAvg(STUDY)), jobs(NAMES))
        assert next(results).site == "site-0"
        results.close()  # type: ignore[attr-defined]  # engines are generators
        assert ran(FedAvg(STUDY), SITES, engine) == ran(FedAvg(STUDY), SITES, InProcess())


class TestInProcess(EngineContract):
    AHEAD = 0

    @pytest.fixture
    def engine(self) -> Engine:
        return InProcess()


@pytest.fixture(scope="module")
def ray() -> Iterator[RayEngine]:
    """One instance for the file: its start takes seconds. What it starts, it ends; and it says nothing."""
    if find_spec("ray") is None:  # not importorskip: what Ray is told in the environment, it reads when it is loaded
        pytest.skip("Ray is not installed")
    before = set(psutil.Process().children(recursive=True))
    environment = dict(os.environ)
    with silence():
        engine = RayEngine(None, WORKERS)
    assert dict(os.environ) == environment
    started = set(psutil.Process().children(recursive=True)) - before
    assert started
    try:
        yield engine
    finally:
        with silence():
            engine.close()
            engine.close()
        _, alive = psutil.wait_procs(started, timeout=30)
        assert not alive


@contextmanager
def silence() -> Iterator[None]:
    """Inside, nothing may be written to the terminal: not by Python's streams, not by other code's descriptors."""
    kept = {number: os.dup(number) for number in (1, 2)}
    with tempfile.TemporaryFile(mode="w+") as file, redirect_stdout(file), redirect_stderr(file):
        for number in kept:
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            for number, copy in kept.items():
                os.dup2(copy, number)
                os.close(copy)
        file.flush()
        file.seek(0)
        said = file.read()
    assert said == ""


class TestRay(EngineContract):
    AHEAD = ray_engine.WINDOW * WORKERS - 1

    @pytest.fixture
    def engine(self, ray: RayEngine) -> Engine:
        return ray

    def test_sites_are_trained_by_as_many_processes_as_were_asked_for(self, ray: RayEngine, tmp_path: Path) -> None:
        slow = Slow(STUDY, seconds=0.2, place=str(tmp_path))
        assert len(list(ray.perform(work(slow), jobs(NAMES * 2)))) == 12
        processes = {int(path.suffix[1:]) for path in tmp_path.iterdir()}
        assert len(processes) == WORKERS
        assert os.getpid() not in processes

    def test_a_worker_killed_in_a_round_changes_no_number(self, ray: RayEngine, tmp_path: Path) -> None:
        deadly = Deadly(STUDY, victim="site-4", marker=str(tmp_path / "killed"))
        with silence():
            found = ran(deadly, SITES, ray)
        assert (tmp_path / "killed").exists()
        assert found == ran(FedAvg(STUDY), SITES, InProcess())

    def test_a_job_that_kills_every_worker_is_told_in_a_line(
        self, ray: RayEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ray_engine, "RETRIES", 0)
        with pytest.raises(Unavailable, match=r"^ray: site site-4 could not be trained in 1 attempts \(\w+\)$"):
            ran(Deadly(STUDY, victim="site-4"), SITES, ray)
        assert ran(FedAvg(STUDY), SITES, ray) == ran(FedAvg(STUDY), SITES, InProcess())

    def test_an_instance_that_was_there_is_used_and_left(self, ray: RayEngine) -> None:
        other = RayEngine(None, 1)
        assert ran(FedAvg(STUDY), SITES, other) == ran(FedAvg(STUDY), SITES, InProcess())
        other.close()
        with pytest.raises(ValueError, match="the engine is closed"):
            next(other.perform(work(FedAvg(STUDY)), jobs(["site-0"])))
        assert [done.site for done in ray.perform(work(FedAvg(STUDY)), jobs(["site-0"]))] == ["site-0"]

    def test_a_cluster_is_joined_by_its_address_and_left(self, ray: RayEngine) -> None:
        """The instance of this file is the cluster, another process the one that joins it."""
        address = import_module("ray").get_runtime_context().gcs_address
        done = subprocess.run(
            [sys.executable, "-m", "support.joining", address],
            # Ray asks for its token since version 2.60, and this machine has it
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "RAY_AUTH_MODE": "token"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr, done.stdout) == (0, "", joining.digest(InProcess()))
        assert [found.site for found in ray.perform(work(FedAvg(STUDY)), jobs(NAMES))] == list(NAMES)

    def test_what_is_no_longer_wanted_is_not_done_to_its_end(self, ray: RayEngine, tmp_path: Path) -> None:
        slow = Slow(STUDY, seconds=600, victims=NAMES[1:], place=str(tmp_path))
        results = ray.perform(work(slow), jobs(NAMES))
        assert next(results).site == "site-0"
        until(lambda: len([path for path in tmp_path.iterdir() if not path.name.startswith("site-0.")]) == WORKERS)
        begun = monotonic()
        results.close()  # type: ignore[attr-defined]  # engines are generators
        assert len(list(ray.perform(work(FedAvg(STUDY)), jobs(NAMES)))) == len(NAMES)
        assert monotonic() - begun < 120
