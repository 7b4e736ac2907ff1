"""The state of one run (one method, one seed) on disk: rounds done, what the server and the sites hold.

Invariants: a round is one transaction, so a run that is killed at any moment goes on from the last whole round, with
the very arrays that it had, each checked by its digest; two processes never work on one run.
"""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray
from safetensors.numpy import load, save

from secureproto.errors import Conflict, IntegrityBroken, Unavailable
from secureproto.learning.exchange import ArrayMap
from secureproto.simulation.history import RoundRecord

FORMAT = 1
SHARED = "shared"
_DIGEST = "sha256 of "
_TABLES = """
    begin;
    create table if not exists facts (key text primary key, value text not null);
    create table if not exists rounds (number integer primary key, record text not null);
    create table if not exists arrays (owner text primary key, data blob not null);
    commit;
"""
# SQLite's result codes: not its file, or not our tables; and the file system says no
_DAMAGED = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA}
_REFUSED = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}


class RunStore:
    """Opens the run at `path`, or begins it; None keeps it in memory. `reading`: no lock, and nothing is written.

    Raises (also later, whenever the file is used):
        Conflict: another process works on it, or it was written by another version of this program.
        IntegrityBroken: the file is damaged.
        Unavailable: the disk is full, or the file cannot be written.
    """

    def __init__(self, path: Path | None = None, *, reading: bool = False) -> None:
        self._path, self._held = path, ExitStack()
        try:
            if path is not None and not reading:
                self._held.enter_context(_locked(path))
            with self._told():
                self._db = self._connected(reading)
            self._check()
            if self.fact("format") not in (None, str(FORMAT)):
                raise Conflict(f"{path}: written by another version of this program", hint="use another --out")
        except BaseException:
            self.close()
            raise

    def _connected(self, reading: bool) -> sqlite3.Connection:
        if reading and self._path is not None:
            database = self._connect(f"file:{quote(str(self._path))}?mode=ro")
            if database.execute("select 1 from sqlite_master").fetchall():
                return database
            # another process is about to begin, or was killed when it was: nothing is done yet
        address = ":memory:" if self._path is None or reading else f"file:{quote(str(self._path))}"
        database = self._connect(address)
        # WAL with NORMAL: a killed process loses nothing, a power cut the last rounds, which are done again
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        database.executescript(_TABLES)
        return database

    def _connect(self, address: str) -> sqlite3.Connection:
        database = sqlite3.connect(address, isolation_level=None, uri=True)
        return self._held.enter_context(closing(database))

    def _check(self) -> None:
        """The small tables and their indexes; arrays are checked by their digests as they are read."""
        for table in ("facts", "rounds"):
            if self._all(f"pragma integrity_check({table})") != [("ok",)]:
                raise self._damaged(f"the table of {table}")

    def close(self) -> None:
        """Give back file and lock."""
        self._held.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        try:
            self._all("begin immediate")
            yield
            self._all("commit")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise

    def fact(self, key: str) -> str | None:
        """What was noted of the run under this key."""
        rows = self._all("select value from facts where key = ?", key)
        return str(rows[0][0]) if rows else None

    def note(self, key: str, value: str) -> None:
        """Note a fact of the run."""
        self._all("insert or replace into facts values (?, ?)", key, value)

    def rounds(self) -> tuple[RoundRecord, ...]:
        """Records of the rounds that are done, in order."""
        rows = self._all("select number, record from rounds order by number")
        texts = [self._checked(f"round {number}", str(text).encode()) for number, text in rows]
        if [row[0] for row in rows] != list(range(len(rows))):
            raise IntegrityBroken(f"{self._path}: a round is missing", hint="remove it and run again")
        return tuple(RoundRecord.model_validate_json(text) for text in texts)

    def rounds_done(self) -> int:
        """How many."""
        return int(self._all("select count(*) from rounds")[0][0])

    def add_round(self, record: RoundRecord) -> None:
        """Add the next round's record."""
        text = record.model_dump_json()
        self._all("insert into rounds values (?, ?)", record.number, text)
        self.note(_DIGEST + f"round {record.number}", sha256(text.encode()).hexdigest())

    def put(self, owner: str, arrays: ArrayMap) -> None:
        """Keep the arrays of an owner (`shared`, `personal/<site>`, `kept/<site>`) in place of those it had."""
        data = save(dict(arrays))
        self._all("insert or replace into arrays values (?, ?)", owner, data)
        self.note(_DIGEST + owner, sha256(data).hexdigest())

    def get(self, owner: str) -> dict[str, NDArray[Any]]:
        """The arrays of an owner in the order of their names; none if nothing was put."""
        rows = self._all("select data from arrays where owner = ?", owner)
        if not rows and self.fact(_DIGEST + owner) is not None:
            raise self._damaged(owner)
        # safetensors gives them in an order that differs from call to call, and a sum over them with it
        return dict(sorted(load(self._checked(owner, rows[0][0])).items())) if rows else {}

    def _checked(self, what: str, data: object) -> bytes:
        """What was read, if it is what was written."""
        if not isinstance(data, bytes) or self.fact(_DIGEST + what) != sha256(data).hexdigest():
            raise self._damaged(what)
        return data

    def _damaged(self, what: str) -> IntegrityBroken:
        return IntegrityBroken(f"{self._path}: damaged at {what}", hint="remove it and run again")

    def _all(self, statement: str, *values: object) -> list[Any]:
        """Do a statement; all rows it gives."""
        with self._told():
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the rest says more of the same
            if code in _DAMAGED:
                raise IntegrityBroken(
                    f"{self._path}: not a run of a simulation, or damaged ({error})", hint="remove it and run again"
                ) from None
            if code in _REFUSED:
                raise Unavailable(
                    f"{self._path}: {error}", hint="make room on the disk, or let this user write there"
                ) from None
            raise


def _locked(path: Path) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_suffix(".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise Conflict(
            f"{path}: another process works on this run", hint="wait for it, or use another --out"
        ) from None
    return lock
