"""The file of a run as it is opened: one writer, readers that leave no trace, and what is no file."""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from secureproto.errors import Conflict, IntegrityBroken, Unavailable
from secureproto.simulation import one_file
from secureproto.simulation.store import RunStore
from support.run_files import RECORD, arrays, listening


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "fedavg" / "0.sqlite"


def lying(path: Path) -> dict[str, tuple[bytes, int]]:
    """All that lies beside a run and itself, with its time of change."""
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in path.parent.iterdir()}


def test_a_run_that_nobody_works_on_is_one_file(path: Path) -> None:
    store = RunStore(path)
    store.put("shared", arrays())
    store.close()
    before = lying(path)
    assert list(before) == [path.name]
    assert before[path.name][0][18:20] == b"\x01\x01"  # SQLite's word for: no log is needed, whoever reads it
    for reading in (True, False):  # a finished run is opened for writing too, and left as it is
        other = RunStore(path, reading=reading)
        assert other.get("shared")["w"][0] == 1
        other.close()
        assert lying(path) == before


def begun(path: Path, rounds: int = 2) -> RunStore:
    """A run in its middle."""
    store = RunStore(path)
    for number in range(rounds):
        store.add_round(RECORD.model_copy(update={"number": number}))
    return store


def killed(path: Path, store: RunStore) -> Path:
    """What is left of a run whose process is killed: the same files, elsewhere."""
    other = path.parent.with_name("killed")
    shutil.copytree(path.parent, other)
    store.close()
    return other / path.name


@pytest.mark.parametrize("missing", ["", "-shm"])
def test_who_reads_a_run_that_was_killed_writes_nothing(path: Path, missing: str) -> None:
    left = killed(path, begun(path))
    if missing:
        left.with_name(left.name + missing).unlink()
    assert left.with_name(left.name + "-wal").stat().st_size
    before = lying(left)
    reader = RunStore(left, reading=True)
    assert len(reader.rounds()) == 2
    reader.close()
    assert lying(left) == before
    writer = RunStore(left)
    assert len(writer.rounds()) == 2
    writer.add_round(RECORD.model_copy(update={"number": 2}))
    writer.close()
    assert list(lying(left)) == [left.name]


def test_a_run_of_before_that_lies_in_its_log_s_mode_is_read_as_it_lies(path: Path) -> None:
    begun(path).close()
    database = sqlite3.connect(path)
    database.execute("pragma journal_mode = wal")
    database.close()
    before = lying(path)
    reader = RunStore(path, reading=True)
    assert len(reader.rounds()) == 2
    reader.close()
    assert lying(path) == before


def test_a_reader_keeps_one_state(path: Path) -> None:
    """Its facts and its rounds are read one after the other, and a writer may come between."""
    store = begun(path)
    reader = RunStore(path, reading=True)
    store.add_round(RECORD.model_copy(update={"number": 2}))
    assert len(reader.rounds()) == 2
    reader.close()
    store.close()
    assert list(lying(path)) == [path.name]


def test_a_lock_that_is_taken_away_while_it_is_waited_for_is_not_held(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who ends takes its file away; who opened it before that has a lock that keeps nobody out."""
    taken = list[int]()

    def flock(descriptor: int, operation: int) -> None:
        fcntl.flock(descriptor, operation)
        if not taken:
            path.with_suffix(".lock").unlink()
        taken.append(descriptor)

    monkeypatch.setattr(one_file, "fcntl", SimpleNamespace(**{**vars(fcntl), "flock": flock}))
    store = RunStore(path)
    with pytest.raises(Conflict):
        RunStore(path)
    store.close()


STRANGE: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": listening,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("ending", [".sqlite", ".lock", ".sqlite-wal", ".sqlite-shm", ".sqlite-journal"])
@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.timeout(20)
def test_what_is_no_file_is_one_line_and_is_not_waited_for(path: Path, kind: str, ending: str, reading: bool) -> None:
    store = begun(path)
    store.close()
    strange = path.with_suffix(ending)
    strange.unlink(missing_ok=True)
    STRANGE[kind](strange)
    try:
        RunStore(path, reading=reading).close()
    except (IntegrityBroken, Unavailable) as error:
        found = error.message
    else:
        found = f"{path}: taken"
        assert kind == "link to nothing" or (ending == ".lock" and reading)
    assert str(path.parent) in found
    assert "\n" not in found
