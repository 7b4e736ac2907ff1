"""A run that is killed, interrupted or fails at any moment, and goes on: as if nothing had happened.

Real signals strike real processes; the same moments are struck by exceptions in this process, in larger numbers.
"""

import multiprocessing
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secureproto.errors import Conflict, IntegrityBroken
from secureproto.simulation.run import Claim, read_history
from secureproto.simulation.store import RunStore
from support.dying_run import METHODS, Left, Moments, left, play, play_until_signal
from support.tree import ROOT

NAMES = sorted(METHODS)


@cache
def undisturbed(name: str) -> tuple[Left, int]:
    """What a run leaves that nothing happens to, and its number of moments."""
    with tempfile.TemporaryDirectory() as folder:
        moments = Moments()
        play(Path(folder) / "run.sqlite", name, moments)
        return left(Path(folder) / "run.sqlite"), moments.passed


def struck(kind: type[BaseException]) -> Callable[[], None]:
    """What raises an exception when it is called."""

    def strike() -> None:
        raise kind

    return strike


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Processes that have loaded all they need before they begin: a run takes less than a tenth of a second."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.warm_run"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "tests"))
        context.Process(target=int).start()
    return context


def start(context: ForkServerContext, path: Path, name: str, point: int, number: int) -> ForkServerProcess:
    process = context.Process(target=play_until_signal, args=(str(path), name, point, number))
    process.start()
    return process


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_process_that_gets_a_signal(
    tmp_path: Path, processes: ForkServerContext, name: str, number: signal.Signals
) -> None:
    expected, moments = undisturbed(name)
    ended = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130}[number]

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.integers(0, moments - 1), min_size=1, max_size=3))
    def signalled(points: list[int]) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            path = Path(folder) / "run.sqlite"
            for point in points:
                process = start(processes, path, name, point, number)
                process.join(60)
                assert process.exitcode in (ended, 0)  # 0: less was left to do than moments until the signal
            play(path, name, Moments())
            assert left(path) == expected

    signalled()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(NAMES),
    strikes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from([KeyboardInterrupt, OSError, SystemExit])),
        min_size=1,
        max_size=3,
    ),
)
def test_an_exception_at_any_moment(name: str, strikes: list[tuple[float, type[BaseException]]]) -> None:
    expected, moments = undisturbed(name)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        for share, kind in strikes:
            with suppress(kind):
                play(path, name, Moments(int(share * moments), struck(kind)))
        play(path, name, Moments())
        assert left(path) == expected


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_two_processes_on_one_run(tmp_path: Path, processes: ForkServerContext, share: float) -> None:
    """The other is stopped in its middle: it holds the run, whose finished rounds can be read all the same."""
    (expected, moments), path = undisturbed("local"), tmp_path / "run.sqlite"
    other = start(processes, path, "local", int(share * moments), signal.SIGSTOP)
    until(lambda: psutil.Process(other.pid).status() == psutil.STATUS_STOPPED)
    with pytest.raises(Conflict, match="another process works on this run"):
        RunStore(path)
    seen = read_history(path, Claim("m", 0), title="M")
    assert len(seen.rounds) == {0.1: 0, 0.5: 1, 0.9: 2}[share]
    assert [record.number for record in seen.rounds] == list(range(len(seen.rounds)))
    psutil.Process(other.pid).resume()
    other.join(60)
    assert other.exitcode == 0
    assert left(path) == expected


@cache
def files() -> tuple[bytes, bytes]:
    """The file of a run that is in its middle, and of one that has ended."""
    _, moments = undisturbed("local")
    with tempfile.TemporaryDirectory() as folder:
        path, found = Path(folder) / "run.sqlite", list[bytes]()
        for point in (moments // 2, -1):
            with suppress(KeyboardInterrupt):
                play(path, "local", Moments(point, struck(KeyboardInterrupt)))
            found.append(path.read_bytes())
    return found[0], found[1]


PAGE = 4096  # of SQLite
damages = st.one_of(
    st.tuples(st.just("bit"), st.floats(0, 1, exclude_max=True), st.integers(0, 7)),
    st.tuples(st.just("cut"), st.floats(0, 1, exclude_max=True), st.just(0)),
    st.tuples(st.just("page"), st.floats(0, 1, exclude_max=True), st.integers(0, 255)),
)


def damaged(file: bytes, kind: str, place: float, value: int) -> bytes:
    """One bit the other way, or the end cut off, or a page overwritten."""
    at, found = int(place * len(file)), bytearray(file)
    if kind == "bit":
        found[at] ^= 1 << value
    elif kind == "cut":
        del found[at:]
    else:
        start = at // PAGE * PAGE
        found[start : start + PAGE] = bytes([value]) * PAGE
    return bytes(found)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(ended=st.booleans(), damage=damages)
def test_a_damaged_file_is_told_in_a_line_or_does_no_harm(ended: bool, damage: tuple[str, float, int]) -> None:
    """Never other numbers, never another error: what is damaged is either not used, or found."""
    assert harmless(damaged(files()[ended], *damage))


@pytest.mark.parametrize("fact", [b"complete", b"format", b"sha256 of round 0", b"sha256 of shared"])
def test_a_fact_is_not_lost_unseen(fact: bytes) -> None:
    """Each stands twice in the file, in a table and in its index, by which SQLite finds it, or nothing, silently."""
    file = files()[True]
    places = [at for at in range(len(file)) if file.startswith(fact, at)]
    assert len(places) >= 2
    for at in places:
        for offset in range(len(fact)):
            assert harmless(file[: at + offset] + bytes([file[at + offset] ^ 1]) + file[at + offset + 1 :])


def harmless(file: bytes) -> bool:
    """Whether a file is refused in one line, or gives the numbers that it should."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        path.write_bytes(file)
        try:
            play(path, "local", Moments())
            return left(path) == undisturbed("local")[0]
        except (IntegrityBroken, Conflict) as error:  # Conflict: of another version, it says
            return str(path) in error.message and "\n" not in error.message and bool(error.hint)


def until(done: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    end = monotonic() + 60
    while not done():
        assert monotonic() < end, "not within the time"
        sleep(0.01)
