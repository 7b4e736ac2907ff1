"""The store of a run: what is put is got to the last bit, a transaction is all or nothing, a file has one user."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from secureproto.errors import Conflict, IntegrityBroken, Unavailable
from secureproto.learning.arrays import Arrays
from secureproto.simulation.store import FORMAT, RunStore
from support.run_files import RECORD, arrays

some = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int64]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "fedavg" / "0.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[RunStore]:
    store = RunStore(path)
    yield store
    store.close()


def again(store: RunStore, path: Path) -> RunStore:
    store.close()
    return RunStore(path)


@given(st.dictionaries(st.text(st.characters(categories=["L", "N"]), min_size=1), some, max_size=4))
@settings(max_examples=50)
def test_arrays_come_back_to_the_last_bit_in_the_order_of_their_names(put: Arrays) -> None:
    store = RunStore()
    store.put("kept/site", put)
    got = store.get("kept/site")
    store.close()
    assert list(got) == sorted(put)
    for name, array in put.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)
        assert got[name].tobytes() == array.tobytes()


def test_what_was_never_put_is_empty_and_what_is_put_again_replaced(store: RunStore) -> None:
    assert store.get("shared") == {}
    store.put("shared", {})
    assert store.get("shared") == {}
    store.put("shared", arrays(1))
    store.put("shared", {"v": np.zeros(2)})
    assert list(store.get("shared")) == ["v"]


def test_all_of_it_is_there_when_the_file_is_opened_again(store: RunStore, path: Path) -> None:
    store.put("shared", arrays(2))
    store.add_round(RECORD)
    store.note("complete", "yes")
    other = again(store, path)
    assert other.get("shared")["w"].tolist() == [2, 2, 2]
    assert other.rounds() == (RECORD,)
    assert other.rounds_done() == 1
    assert other.fact("complete") == "yes"
    assert other.fact("failure") is None
    other.close()


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_a_transaction_that_fails_leaves_nothing_and_the_store_in_order(
    store: RunStore, path: Path, kind: type[BaseException]
) -> None:
    store.put("shared", arrays(1))
    with pytest.raises(kind):
        fail(store, kind)
    with store.transaction():
        store.put("kept/b", arrays(3))
    other = again(store, path)
    assert other.get("shared")["w"][0] == 1
    assert other.get("kept/a") == {}
    assert other.get("kept/b")["w"][0] == 3
    assert other.rounds() == ()
    other.close()


def fail(store: RunStore, kind: type[BaseException]) -> None:
    """A transaction with all there is, and then an exception."""
    with store.transaction():
        store.put("shared", arrays(2))
        store.put("kept/a", arrays(2))
        store.add_round(RECORD)
        raise kind


def test_a_transaction_that_is_not_finished_is_not_seen(store: RunStore, path: Path) -> None:
    store.put("shared", arrays(1))
    with store.transaction():
        store.put("shared", arrays(2))
        store.add_round(RECORD)
        reader = RunStore(path, reading=True)
        assert (reader.get("shared")["w"][0], reader.rounds()) == (1, ())
        reader.close()
    reader = RunStore(path, reading=True)
    assert (reader.get("shared")["w"][0], reader.rounds()) == (2, (RECORD,))
    reader.close()


def test_a_run_has_one_user_at_a_time(store: RunStore, path: Path) -> None:
    with pytest.raises(Conflict, match="another process works on this run"):
        RunStore(path)
    again(store, path).close()
    RunStore(path).close()


def test_who_reads_writes_nothing(store: RunStore, path: Path) -> None:
    reader = RunStore(path, reading=True)
    with pytest.raises(Unavailable, match="readonly"):
        reader.note("complete", "yes")
    reader.close()
    assert store.fact("complete") is None


def test_a_run_that_was_killed_before_it_began_has_no_rounds(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch()
    reader = RunStore(path, reading=True)
    assert (reader.rounds(), reader.fact("format")) == ((), None)
    reader.close()
    assert path.stat().st_size == 0
    RunStore(path).close()


def test_another_version_is_refused_and_the_lock_given_back(store: RunStore, path: Path) -> None:
    store.note("format", "9")
    store.close()
    for _ in range(2):
        with pytest.raises(Conflict, match="written by another version"):
            RunStore(path)
    with pytest.raises(Conflict, match="written by another version"):
        RunStore(path, reading=True)


@pytest.mark.parametrize("reading", [False, True])
def test_what_is_no_run_is_told_in_a_line_and_the_lock_given_back(path: Path, reading: bool) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"site,age\n" * 1000)
    for _ in range(2):
        with pytest.raises(IntegrityBroken, match="not a run of a simulation, or damaged") as caught:
            RunStore(path, reading=reading)
        assert "\n" not in caught.value.message


def test_a_database_of_something_else_is_refused(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.execute("create table facts (name text)")
    database.close()
    with pytest.raises(IntegrityBroken, match="not a run of a simulation"):
        RunStore(path)


def test_a_place_that_is_no_file_is_told(tmp_path: Path) -> None:
    for reading in (False, True):
        with pytest.raises(IntegrityBroken, match="is no file"):
            RunStore(tmp_path, reading=reading)
    with pytest.raises(Unavailable, match=r"none.sqlite: cannot be read: No such file"):
        RunStore(tmp_path / "none.sqlite", reading=True)


@pytest.mark.parametrize(("table", "column", "what"), [("arrays", "data", "kept/a"), ("rounds", "record", "round 0")])
def test_one_wrong_byte_is_found(store: RunStore, path: Path, table: str, column: str, what: str) -> None:
    store.put("kept/a", arrays())
    store.add_round(RECORD)
    store.close()
    with sqlite3.connect(path) as database:
        [(value,)] = database.execute(f"select {column} from {table}").fetchall()  # noqa: S608  # our own names
        wrong = value.replace("7", "8") if isinstance(value, str) else value[:-1] + bytes([value[-1] ^ 1])
        database.execute(f"update {table} set {column} = ?", (wrong,))  # noqa: S608  # our own names
    database.close()
    other = RunStore(path)
    with pytest.raises(IntegrityBroken, match=f"damaged at {what}$"):
        (other.get("kept/a"), other.rounds())
    other.close()


def test_arrays_that_have_gone_are_missed(store: RunStore, path: Path) -> None:
    store.put("kept/a", arrays())
    store.close()
    with sqlite3.connect(path) as database:
        database.execute("delete from arrays")
    database.close()
    other = RunStore(path)
    with pytest.raises(IntegrityBroken, match=r"damaged at kept/a$"):
        other.get("kept/a")
    other.close()


def test_a_full_disk_is_told_and_what_was_there_stays(store: RunStore) -> None:
    store.put("shared", arrays(1))
    store._db.execute("pragma max_page_count = 12")  # SQLite's own bound stands for the disk's
    with pytest.raises(Unavailable, match="full") as caught:
        fill(store)
    assert "make room" in caught.value.hint
    assert store.get("kept/0") == {}
    assert store.get("shared")["w"][0] == 1
    with store.transaction():
        store.put("shared", arrays(3))
    assert store.get("shared")["w"][0] == 3


def test_a_disk_that_is_full_from_the_start_is_told(tmp_path: Path) -> None:
    """A process that may write 8 KiB a file: enough for the lock, too little for the tables."""
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from secureproto.errors import Unavailable\n"
        "from secureproto.simulation.store import RunStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "try:\n"
        "    RunStore(Path(sys.argv[1]))\n"
        "except Unavailable as error:\n"
        "    print('told:', error.message)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "run.sqlite")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("told:"), done.stderr[-500:]
    store = RunStore(tmp_path / "run.sqlite")  # with room, it begins
    store.put("shared", arrays(1))
    store.close()


def fill(store: RunStore) -> None:
    """A transaction of 400 kB."""
    with store.transaction():
        for number in range(100):
            store.put(f"kept/{number}", arrays(2, n=1000))


def test_a_round_that_is_gone_is_told(store: RunStore, path: Path) -> None:
    for number in range(3):
        store.add_round(RECORD.model_copy(update={"number": number}))
    store.close()
    with sqlite3.connect(path) as database:
        database.execute("delete from rounds where number = 1")
    database.close()
    with pytest.raises(IntegrityBroken, match="a round is missing, or one too many"):
        RunStore(path, reading=True)


BY_HAND = (
    "delete from facts where key glob '*round 0'",
    "delete from facts where key glob '*shared'",
    "delete from facts where key = 'complete'",
    "delete from facts where key = 'seal'",
    "update facts set value = 'ditto' where key = 'method'",
    "update facts set value = '7' where key = 'seed'",
    "update facts set value = 'never' where key = 'complete'",
    "insert into facts values ('failure', 'diverged')",
    "delete from rounds where number = 1",
    "delete from rounds where number = 2",
    "insert into rounds select 3, record from rounds where number = 2",
    "update rounds set number = 5 where number = 2",
)


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("statement", BY_HAND)
def test_what_other_hands_changed_is_told(path: Path, statement: str, reading: bool) -> None:
    store = RunStore(path)
    with store.transaction():
        for key, value in (("format", str(FORMAT)), ("method", "fedavg"), ("seed", "0"), ("complete", "yes")):
            store.note(key, value)
        store.put("shared", arrays())
        for number in range(3):
            store.add_round(RECORD.model_copy(update={"number": number}))
    store.close()
    RunStore(path, reading=True).close()
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()
    with pytest.raises(IntegrityBroken) as caught:
        RunStore(path, reading=reading).rounds()
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("gone", ["'seal'", "'seal', 'format'"])
def test_a_run_without_its_seal_is_refused(path: Path, gone: str) -> None:
    store = RunStore(path)
    store.note("format", str(FORMAT))
    store.add_round(RECORD)
    store.close()
    with sqlite3.connect(path) as database:
        database.execute(f"delete from facts where key in ({gone})")  # noqa: S608 - ours
    database.close()
    with pytest.raises(IntegrityBroken):
        RunStore(path, reading=True)


@pytest.mark.parametrize("what", ["shared", "round 0"])
def test_what_has_no_digest_is_refused_though_the_seal_is_right(store: RunStore, path: Path, what: str) -> None:
    with store.transaction():
        store.put("shared", arrays())
        store.add_round(RECORD)
        # the number of digests stays, and the seal is made over what is left
        store._all("update facts set key = key || '7' where key = ?", f"sha256 of {what}")
    other = again(store, path)
    with pytest.raises(IntegrityBroken, match=f"damaged at {what}$"):
        (other.get("shared"), other.rounds())
    other.close()
