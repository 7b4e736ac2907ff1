"""The SQL store where it is more than its contract: durability, other processes, a bad disk."""

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from secureproto.errors import IntegrityBroken, Misconfigured, Unavailable
from secureproto_server.storage import sql
from secureproto_server.storage.migrate import upgrade
from secureproto_server.storage.records import AuditEntry, Meta, Site
from secureproto_server.storage.sql import SqlStore
from support.rows import a_site

KILLED = """
import os, signal, sys
from secureproto_server.storage.records import Meta
from secureproto_server.storage.sql import SqlStore
store = SqlStore(sys.argv[1])
with store.transaction("committed") as tx:
    tx.insert(Meta("committed", "1"))
with store.transaction("killed") as tx:
    tx.insert(Meta("killed", "1"))
    os.kill(os.getpid(), signal.SIGKILL)
"""

COUNTS = """
import sys
from secureproto_server.storage.records import Meta
from secureproto_server.storage.sql import SqlStore
store = SqlStore(sys.argv[1])
for _ in range(25):
    with store.transaction("count") as tx:
        tx.put(Meta("count", str(int(tx.get(Meta, "count").value) + 1)))
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    upgrade(url)
    return url


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    store = SqlStore(url)
    yield store
    store.close()


def test_a_commit_is_on_the_disk(store: SqlStore, url: str) -> None:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    with store.transaction("look") as tx:
        raw = tx._connection  # type: ignore[attr-defined]  # what the durability rests on is not in the interface
        assert raw.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert raw.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_kill_9_loses_what_was_not_committed_and_nothing_else(store: SqlStore, url: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, url], check=False)
    assert killed.returncode == -signal.SIGKILL
    with store.transaction("read") as tx:
        assert tx.select(Meta) == [Meta("committed", "1")]


def test_two_processes_take_turns(store: SqlStore, url: str) -> None:
    with store.transaction("begin") as tx:
        tx.insert(Meta("count", "0"))
    processes = [subprocess.Popen([sys.executable, "-c", COUNTS, url]) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    with store.transaction("read") as tx:
        assert tx.get(Meta, "count") == Meta("count", "50")


def test_a_stuck_process_makes_it_unavailable(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "BUSY_SECONDS", 0.2)
    store = SqlStore(url)
    stuck = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    stuck.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="transaction 'wait' failed in the database: SQLITE_BUSY"):
        store.transaction("wait").__enter__()
    stuck.execute("ROLLBACK")
    stuck.close()
    with store.transaction("goes on") as tx:
        assert tx.select(Meta) == []
    store.close()


def test_a_full_disk_is_unavailable_and_loses_nothing(store: SqlStore) -> None:
    def fill() -> None:
        with store.transaction("fill") as tx:
            tx._connection.exec_driver_sql("PRAGMA max_page_count = 60")  # type: ignore[attr-defined]  # as a full disk
            for sequence in range(100):
                tx.insert(AuditEntry(sequence, bytes(8000)))

    with store.transaction("before") as tx:
        tx.insert(Meta("kept", "1"))
    with pytest.raises(Unavailable, match="SQLITE_FULL"):
        fill()
    with store.transaction("after") as tx:
        assert tx.select(AuditEntry) == []
        assert tx.get(Meta, "kept") == Meta("kept", "1")


def test_an_error_never_shows_a_value(store: SqlStore) -> None:
    """A table changed behind the program's back: the database's own constraint answers, as an alarm."""
    with store.transaction("write") as tx:
        tx.insert(a_site())

    def breaks() -> None:
        with store.transaction("break") as tx:
            tx._connection.exec_driver_sql(  # type: ignore[attr-defined]  # no row of ours can break it
                "INSERT INTO sp_site SELECT 'x', 'secret-value', 'a', 'b', 'c', 'd', 'e', 'f', 1, 2"
            )

    with pytest.raises(IntegrityBroken, match="SQLITE_CONSTRAINT_CHECK") as broken:
        breaks()
    assert "secret-value" not in str(broken.value)
    with store.transaction("read") as tx:
        assert [row.site for row in tx.select(Site)] == ["site-a"]


def test_a_waiting_thread_does_not_see_half_a_transaction(store: SqlStore) -> None:
    inside, seen = threading.Event(), list[int]()

    def read() -> None:
        inside.wait(10)
        with store.transaction("read") as tx:
            seen.append(len(tx.select(Meta)))

    reader = threading.Thread(target=read)
    reader.start()
    with store.transaction("write") as tx:
        tx.insert(Meta("a", "1"))
        inside.set()
        tx.insert(Meta("b", "1"))
    reader.join(10)
    assert seen == [2]


@pytest.mark.parametrize("url", ["nonsense", "sqlite://", "sqlite:///:memory:", "mysql://localhost/a", ""])
def test_another_database_is_misconfigured(url: str) -> None:
    with pytest.raises(Misconfigured):
        SqlStore(url)


def test_a_directory_that_does_not_exist_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened: No such file"):
        upgrade(f"sqlite:///{tmp_path / 'nowhere' / 'state.db'}")


def test_the_state_is_only_ours(store: SqlStore, url: str) -> None:
    with store.transaction("write") as tx:
        tx.insert(Meta("a", "1"))
    files = list(Path(url.removeprefix("sqlite:///")).parent.iterdir())
    assert files
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
