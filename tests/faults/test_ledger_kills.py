"""A ledger whose process is killed at every moment, whose disk fills up, whose file is set back, which two want.

Of each history: nothing was released that was not charged and committed before, and no round ever had two bodies.
"""

import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from secureproto.errors import Conflict, IntegrityBroken, SecureProtoError, Unavailable
from secureproto.privacy.events import Gaussian
from secureproto.privacy.ledger.charging import Charging, require_at_least, sealed_digest
from secureproto.privacy.ledger.entries import Committed
from secureproto.privacy.ledger.state import Phase, State
from secureproto_client.ledger.file import SqliteLedger, read
from secureproto_client.ledger.schema import Expected
from support import ledger_program
from support.ledgers import NOW, SITE, begun, claim, committed, counting, opened

EXPECTED = Expected(SITE)
FORK = multiprocessing.get_context("fork")  # a new interpreter for each of a hundred kills would take minutes


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where there is one: a killed process needs no disk that is flushed a thousand times."""
    memory = Path("/dev/shm")  # noqa: S108 - private below
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def run(path: Path, told: Path, kill_at: int) -> int:
    """The program in a process of its own, its lines added to `told`; its exit code."""

    def child() -> None:
        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
        ledger_program.main(path, kill_at)

    process = FORK.Process(target=child)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def bodies(told: Path) -> dict[int, set[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    for line in told.read_text().splitlines() if told.exists() else ():
        if line.startswith("released"):
            _, number, body = line.split()
            found[int(number)].add(body)
    return found


def check(path: Path, told: Path) -> State:
    state, entries = read(path, EXPECTED)
    lines = told.read_text().splitlines() if told.exists() else []
    done = {entry.sealed for entry in entries if isinstance(entry, Committed)}
    for released in bodies(told).values():
        assert len(released) == 1
        assert {sealed_digest(bytes.fromhex(body)) for body in released} <= done
    # what was told was durable before: each begun attempt is charged, whatever came of it
    charged = sum(times for _, times in state.charged)
    assert charged >= sum(line.startswith("begun") for line in lines)
    assert charged == len(state.reservations)
    return state


def test_killed_at_every_moment_it_never_released_more_than_it_charged(quick_path: Path) -> None:
    tmp_path = quick_path
    assert run(tmp_path / "count" / "l", tmp_path / "none", -1) == 1  # no such directory
    base = tmp_path / "whole"
    base.mkdir()
    assert run(base / "l", base / "told", -1) == 0
    moments = int((base / "told").read_text().splitlines()[-1].split()[1])
    assert moments > 80
    for kill_at in range(moments):
        here = tmp_path / str(kill_at)
        here.mkdir()
        assert run(here / "l", here / "told", kill_at) == -signal.SIGKILL
        if (here / "l").exists():
            check(here / "l", here / "told")
        assert run(here / "l", here / "told", -1) == 0  # taken up to its end
        state = check(here / "l", here / "told")
        assert set(bodies(here / "told")) == {0, 1}
        assert len(state.reservations) <= 3  # at most one attempt was lost
        assert [each.phase for each in state.outstanding] in ([], [Phase.BEGUN])
        shutil.rmtree(here)


def test_killed_twice_in_a_row(quick_path: Path) -> None:
    for first in range(4, 60, 11):
        here = quick_path / str(first)
        here.mkdir()
        for kill_at in (first, first // 2, first // 3):
            run(here / "l", here / "told", kill_at)
        assert run(here / "l", here / "told", -1) == 0
        check(here / "l", here / "told")
        assert set(bodies(here / "told")) == {0, 1}


def test_a_creation_that_was_killed_leaves_no_half_ledger(tmp_path: Path) -> None:
    path = tmp_path / "l"
    (tmp_path / ".l.new").write_bytes(b"half")
    (tmp_path / ".l.new-journal").write_bytes(b"half")
    SqliteLedger.create(path, opened()).close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["l", "l.lock"]


def test_the_journal_of_a_killed_commit_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "l"
    with SqliteLedgerAt(path) as ledger:
        committed(Charging(ledger), claim())
    program = (
        "import sys, os, signal\nfrom pathlib import Path\n"
        "from secureproto_client.ledger.schema import connect\n"
        "c = connect(Path(sys.argv[1]), 'rw')\n"
        "c.execute('PRAGMA cache_size = 1')\nc.execute('BEGIN IMMEDIATE')\n"
        "[c.execute('INSERT INTO entries VALUES (?, ?, 0)', (5 + i, os.urandom(3000))) for i in range(200)]\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert (tmp_path / "l-journal").stat().st_size > 0
    assert path.stat().st_size > 200 * 3000  # the pages of the broken transaction are in the file
    with SqliteLedgerAt(path) as ledger:
        assert len(ledger.entries()) == 5
        committed(Charging(ledger), claim(1))


def test_of_two_processes_one_has_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "l"
    ledger = SqliteLedger.create(path, opened())
    with pytest.raises(Conflict, match=f"in use by process {os.getpid()}$") as caught:
        SqliteLedger.open(path, EXPECTED)
    assert "client stop" in caught.value.hint
    told = tmp_path / "told"
    assert run(path, told, -1) == 1  # another process is refused as well
    assert not told.read_text().count("reserved")
    committed(Charging(ledger), claim())
    assert read(path, EXPECTED)[0] == ledger.state  # to look is allowed
    ledger.close()
    assert run(path, told, -1) == 1  # round 0 is committed, and its sealed bytes are not there: nothing is sent
    assert not bodies(told)
    SqliteLedger.open(path, EXPECTED).close()


def test_many_processes_at_once_charge_each_round_once(tmp_path: Path) -> None:
    path = tmp_path / "l"
    SqliteLedger.create(path, opened()).close()
    processes = [FORK.Process(target=_race, args=(path,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    state, entries = read(path, EXPECTED)
    assert state.charged == ((Gaussian(4.0), 5),)
    assert len(entries) == 1 + 5 * 4


def _race(path: Path) -> None:
    number = 0
    while number < 5:
        try:
            with SqliteLedgerAt(path) as ledger:
                number = len(ledger.state.reservations)
                if number < 5:
                    committed(Charging(ledger), claim(number))
        except Conflict:
            continue


def test_a_restored_snapshot_is_found_by_a_head_known_elsewhere(tmp_path: Path) -> None:
    path, snapshot = tmp_path / "l", tmp_path / "snapshot"
    with SqliteLedgerAt(path) as ledger:
        committed(Charging(ledger), claim())
        shutil.copy(path, snapshot)
        kept = [ledger.state.head]
        committed(Charging(ledger), claim(1))
        kept.append(ledger.state.head)
    shutil.copy(snapshot, path)
    with SqliteLedgerAt(path) as ledger:
        require_at_least(ledger, kept[0].digest, kept[0].sequence)
        with pytest.raises(IntegrityBroken, match="ALARM"):
            require_at_least(ledger, kept[1].digest)
        committed(Charging(ledger), claim(1))  # another history of the same length
        assert ledger.state.head.sequence == kept[1].sequence
        with pytest.raises(IntegrityBroken, match="ALARM"):
            require_at_least(ledger, kept[1].digest, kept[1].sequence)


def test_a_snapshot_put_back_under_a_running_client_is_found_before_it_charges(tmp_path: Path) -> None:
    path, snapshot = tmp_path / "l", tmp_path / "snapshot"
    with SqliteLedgerAt(path) as ledger:
        shutil.copy(path, snapshot)
        charging = Charging(ledger)
        identity = begun(charging, claim()).id
        snapshot.rename(path)
        with pytest.raises(IntegrityBroken, match="replaced"):
            charging.commit(identity, b"x")
    with SqliteLedgerAt(path) as ledger:
        assert len(ledger.entries()) == 1


def test_a_snapshot_copied_into_the_file_of_a_running_client_is_found(tmp_path: Path) -> None:
    path, snapshot = tmp_path / "l", tmp_path / "snapshot"
    with SqliteLedgerAt(path) as ledger:
        shutil.copy(path, snapshot)
        identity = begun(Charging(ledger), claim()).id
        path.write_bytes(snapshot.read_bytes())
        with pytest.raises((IntegrityBroken, Unavailable)):
            Charging(ledger).commit(identity, b"x")


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """No file grows over `size` bytes: a write that would fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_charges_nothing_and_releases_nothing(tmp_path: Path) -> None:
    path = tmp_path / "l"
    with SqliteLedgerAt(path) as ledger:
        charging = Charging(ledger)
        identity, number = begun(charging, claim()).id, 0
        size = path.stat().st_size
        with disk_of(size):
            with pytest.raises(Unavailable, match="cannot use the ledger") as caught:  # noqa: PT012 - until it is full
                for number in range(1, 100):
                    charging.reserve(claim(number), counting(), NOW)
            assert "space" in caught.value.hint
            full = ledger.state
            with pytest.raises(Unavailable):
                charging.commit(identity, bytes(10))
            assert ledger.state == full
            assert read(path, EXPECTED)[0] == full
        assert full.reservation(identity).phase is Phase.BEGUN
        assert charging.commit(identity, b"x").release() == b"x"  # when there is room again
        assert read(path, EXPECTED)[0] == ledger.state


@pytest.mark.parametrize("size", [0, 50, 600, 4096, 5000])
def test_a_ledger_is_not_made_on_a_full_disk(tmp_path: Path, size: int) -> None:
    path = tmp_path / "l"
    (tmp_path / "l.lock").write_text("0\n")
    with pytest.raises(SecureProtoError) as caught, disk_of(size):
        SqliteLedger.create(path, opened())
    assert isinstance(caught.value, Unavailable)
    assert [each.name for each in tmp_path.iterdir()] == ["l.lock"]
    SqliteLedger.create(path, opened()).close()


@contextmanager
def SqliteLedgerAt(path: Path) -> Iterator[SqliteLedger]:  # noqa: N802 - stands for the class
    """The ledger at `path`, made if need be, and let go of."""
    ledger = SqliteLedger.open(path, EXPECTED) if path.exists() else SqliteLedger.create(path, opened())
    try:
        yield ledger
    finally:
        ledger.close()
