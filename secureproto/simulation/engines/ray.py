"""The engine of Ray: sites are trained by many processes, on this machine or on a cluster. Nothing else imports Ray.

    1. The sites' records go into Ray's object store once, what is alike for a round once a round; a job has only a
       site's name and its own arrays.
    2. A few jobs a worker are on their way at any time (`WINDOW`): thousands of sites never lie in memory together.
    3. Results are taken in the order of the jobs, whichever is done first.

Invariants: the numbers are those of the engine in this process, to the last bit (on a cluster: of machines of one
kind); a job whose process dies is done again, `RETRIES` times, with the same numbers; Ray writes nothing to the
terminal, and opens no dashboard. Source: Moritz et al., "Ray: A Distributed Framework for Emerging AI Applications",
OSDI 2018; docs.ray.io.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import torch

from secureproto.errors import Misconfigured, SecureProtoError, Unavailable
from secureproto.simulation.engines.seam import Done, Job, Sites, Work, Worker

WINDOW = 2  # jobs on their way for each worker: one that is done, and one to go on with
RETRIES = 3  # of a job whose process died
PATIENCE = 15.0  # seconds until a cluster that does not answer is given up
GRACE = 2.0  # seconds for jobs that are no longer wanted to stop
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# read by Ray when it is loaded: nothing is told to its makers; a job that was ended for want of memory is not tried
# for ever; what machines report of processes that died (every line, `^`) is not printed
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_oom_retries": str(RETRIES),
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
}
# what a process does that tries an address first: Ray itself waits for minutes, and cannot be interrupted
TRY = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='CRITICAL'); ray.shutdown()"


class RayEngine:
    """An Engine. `address`: a running cluster (HOST:PORT, or `auto` for the one of this machine), which stays; None
    starts Ray on this machine, and ends it with `close`. A process that is connected to Ray already uses that, and
    leaves it as it is. `workers`: how many sites are trained at once; None for all CPUs.

    Where Ray itself dies on this machine, it ends this program with it; the run goes on when it is started again.
    A cluster's machines need this package in the same version, and whatever else the study names: a model factory
    of one's own package must be importable there. What the program itself can import is found on its own machine.

    Raises:
        Misconfigured: Ray is not installed, fewer than one worker, or an address although the process is connected.
        Unavailable: no cluster answers at the address, or Ray does not start.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise Misconfigured(f"--workers {workers}: at least one is needed")
        self._workers, self._bounded = workers, address is None
        self._environment = _environment(local=address is None)
        self._held: tuple[Sites, Any] | None = None
        with _undisturbed():
            self._ray = _installed()
            self._own = not self._ray.is_initialized()
            if not self._own and address is not None:
                raise Misconfigured("ray: this process is connected already", hint="leave out --address")
            if self._own:
                _connect(self._ray, address, workers, self._environment)
            else:
                self._bounded = False
        self._task, self._open = self._ray.remote(_perform), True
        if self._own and address is None:
            self._start_workers()

    def perform(self, work: Work, jobs: Iterable[Job]) -> Iterator[Done]:
        """Raises as Engine.perform, and Unavailable: a process died at a job again and again."""
        if not self._open:
            raise ValueError("the engine is closed")
        task = self._task.options(num_cpus=1, max_retries=RETRIES, runtime_env=self._environment)
        sites, alike, most = self._put_sites(work.sites), self._put(_without_sites(work)), self._window()
        flying = deque[tuple[str, Any]]()
        try:
            for job in jobs:
                # in lists, references are not looked up for each job: a process keeps what it has looked up
                flying.append((job.site, task.remote([sites], [alike], job)))
                if len(flying) >= most:
                    yield self._result(*flying.popleft())
            while flying:
                yield self._result(*flying.popleft())
        finally:
            self._cancel([reference for _, reference in flying])

    def _start_workers(self) -> None:
        """Their processes load what they need now: else the seconds of the first round would be those of loading."""
        task = self._ray.remote(_stand_by).options(num_cpus=1, runtime_env=self._environment)
        try:
            self._ray.get([task.remote() for _ in range(self._window() // WINDOW)])
        except self._ray.exceptions.RayError as error:
            self.close()
            raise Unavailable(f"ray: its processes do not start ({type(error).__name__})") from None

    def close(self) -> None:
        """End what was started here; a cluster, or an instance that was there before, goes on."""
        if self._open and self._own:
            self._ray.shutdown()
        self._open, self._held = False, None

    def _window(self) -> int:
        """Jobs on their way. Where Ray may have more CPUs than are wanted, `workers` itself is the bound."""
        if self._workers is not None:
            return WINDOW * self._workers if self._bounded else self._workers
        return WINDOW * max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _put_sites(self, sites: Sites) -> Any:
        """The sites' reference, the same until others come."""
        if self._held is None or self._held[0] is not sites:
            self._held = None  # gives back the room of those before
            self._held = sites, self._put(sites)
        return self._held[1]

    def _put(self, value: object) -> Any:
        try:
            return self._ray.put(value)
        except self._ray.exceptions.RayError as error:
            raise Unavailable(
                f"ray: no room for the records of the sites ({type(error).__name__})", hint="give /dev/shm more room"
            ) from None

    def _result(self, site: str, reference: Any) -> Done:
        try:
            done: Done = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            _raise(error)
        except self._ray.exceptions.RayError as error:
            raise Unavailable(
                f"ray: site {site} could not be trained in {RETRIES + 1} attempts ({type(error).__name__})",
                hint="run again, perhaps with fewer --workers: it goes on from the last whole round",
            ) from None
        return done

    def _cancel(self, references: list[Any]) -> None:
        """Nothing of a round that ended early goes on in the next one."""
        if references and self._open and self._ray.is_initialized():
            for reference in references:
                self._ray.cancel(reference)
            self._ray.wait(references, num_returns=len(references), timeout=GRACE)


class _Bench:
    """What a process of Ray keeps from job to job: its worker, the sites, and what is alike for all of the round."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.worker = Worker()
        self._found: dict[str, tuple[str, Any]] = {}

    def look_up(self, what: str, reference: Any) -> Any:
        """The object, from the object store once; the one before it is let go."""
        number = reference.hex()
        if self._found.get(what, ("", None))[0] != number:
            self._found.pop(what, None)
            self._found[what] = number, import_module("ray").get(reference)
        return self._found[what][1]


_bench = cache(_Bench)


def _stand_by() -> None:
    """A process of Ray makes itself ready."""
    _bench()


def _perform(sites: list[Any], alike: list[Any], job: Job) -> Done:
    """A job, in a process of Ray."""
    try:
        bench = _bench()
        work: Work = bench.look_up("work", alike[0])(sites=bench.look_up("sites", sites[0]))
        return bench.worker.perform(work, job)
    except BaseException:
        _bench.cache_clear()  # a job that was cut short may have left a model that is half of something
        raise


def _without_sites(work: Work) -> "partial[Work]":
    """The work as a function of the sites, which are sent on their own."""
    return partial(Work, **{field.name: getattr(work, field.name) for field in fields(Work) if field.name != "sites"})


def _raise(error: Any) -> NoReturn:
    """What was raised at the job, as the engine in this process would raise it."""
    if isinstance(error.cause, SecureProtoError):
        raise error.cause from None
    if "No module named" in str(error.cause):
        missing = str(error.cause).partition("\n")[0].partition("No module named ")[2]
        raise Misconfigured(
            f"ray: a worker has no module {missing}", hint="install it on every machine of the cluster"
        ) from None
    raise error.cause from error  # a fault of a program: `error` shows where, in the other process


def _installed() -> Any:
    try:
        return import_module("ray")
    except ModuleNotFoundError:
        raise Misconfigured("--engine ray: Ray is not installed", hint="pip install 'secureproto[ray]'") from None


def _connect(ray: Any, address: str | None, workers: int | None, environment: dict[str, Any]) -> None:
    if address is None:
        # `local`: without it Ray joins whatever instance it finds
        cpus = workers or len(os.sched_getaffinity(0))
        options = {"address": "local", "num_cpus": cpus, "include_dashboard": False, "runtime_env": environment}
    else:
        _try(address)
        options = {"address": address}
    try:
        ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
    except BaseException as error:
        ray.shutdown()
        if not isinstance(error, Exception):
            raise
        raise Unavailable(f"ray: does not start, or cannot be joined: {_line(str(error))}") from None


def _try(address: str) -> None:
    """Connect to a cluster in a process that can be ended.

    Raises:
        Misconfigured: it is no address.
        Unavailable: it does not answer in time, or refuses.
    """
    hint = "is it `ray start`ed, on this machine too? one that asks for tokens needs RAY_AUTH_MODE=token"
    host, _, port = address.rpartition(":")
    if address != "auto" and not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise Misconfigured(f"--address {address!r}: not HOST:PORT, nor auto")
    try:
        if address != "auto":
            socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE / 3).close()
        command = [sys.executable, "-P", "-c", TRY, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except OSError as error:
        raise Unavailable(f"ray: nothing answers at {address} ({_line(str(error))})", hint=hint) from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"ray: no cluster answers at {address}", hint=hint) from None
    if done.returncode != 0:
        raise Unavailable(f"ray: no cluster at {address}: {_line(done.stderr)}", hint=hint)


def _environment(*, local: bool) -> dict[str, Any]:
    """Of the worker processes. On this machine they find the modules that this process finds."""
    path = {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)} if local else {}
    return {"env_vars": {**ONE_THREAD, **path}}


def _line(text: str) -> str:
    """The last line of a message, where Python puts what is wrong."""
    return (text.strip().splitlines() or ["no reason given"])[-1][:200]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ray is loaded and started inside; what it sets for the whole process is afterwards as it was.

    That is variables of the environment, the handler of SIGTERM, and the hook for exceptions nobody caught.
    """
    before, hook, handler = dict(os.environ), sys.excepthook, signal.getsignal(signal.SIGTERM)
    os.environ.update(SETTINGS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Ray's own affairs
            yield
    finally:
        sys.excepthook = hook
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
