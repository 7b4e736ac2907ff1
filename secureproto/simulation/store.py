"""The state of one run (one method, one seed) on disk: rounds done, what the server and the sites hold.

Invariants: a round is one transaction, so a run that is killed at any moment goes on from the last whole round, with
the very arrays that it had, each checked by its digest; two processes never work on one run; what other hands changed
is found (`_SEAL`); a run that nobody works on is one file, and who reads it writes nothing, there or beside it.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray
from safetensors.numpy import load, save

from secureproto.errors import Conflict, IntegrityBroken, Unavailable
from secureproto.learning.exchange import ArrayMap
from secureproto.simulation.history import RoundRecord
from secureproto.simulation.one_file import ROOM, alone_with, readable
from secureproto.wire.canonical import length_prefixed

FORMAT = 2
SHARED = "shared"
_ANEW = "remove it and run again"
_DIGEST = "sha256 of "
_ROUND = "round "
_SEAL = "seal"  # SHA-256 over all other facts, the digests among them
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
        self._path, self._held, self._logging = path, ExitStack(), False
        try:
            if path is not None and not reading:
                self._held.enter_context(alone_with(path))
            with self._told():
                self._db = self._reader(path) if path is not None and reading else self._writer()
            self._check()
        except BaseException:
            self.close()
            raise

    def _reader(self, path: Path) -> sqlite3.Connection:
        database = self._connect(self._held.enter_context(readable(path)))
        database.execute("begin")  # one state of it, whatever its writer does meanwhile
        if database.execute("select 1 from sqlite_master").fetchall():
            return database
        # another process is about to begin, or was killed when it was: nothing is done yet
        empty = self._connect(":memory:")
        empty.executescript(_TABLES)
        return empty

    def _writer(self) -> sqlite3.Connection:
        database = self._connect(":memory:" if self._path is None else f"file:{quote(os.fsencode(self._path))}")
        if not database.execute("select 1 from sqlite_master").fetchall():
            self._log(database)
            try:
                database.executescript(_TABLES)
            except BaseException:
                self._logging = False  # a disk that is full: `close` has no database to bring its log into the file
                raise
        return database

    def _log(self, database: sqlite3.Connection) -> None:
        """From now on changes go through a log beside the file (WAL), until `close`. With NORMAL a killed process
        loses nothing, a power cut the last rounds, which are done again."""
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        self._logging = True

    def _connect(self, address: str) -> sqlite3.Connection:
        database = sqlite3.connect(address, isolation_level=None, uri=True)
        return self._held.enter_context(closing(database))

    def _check(self) -> None:
        """The small tables, their indexes and the seal; arrays are checked by their digests as they are read."""
        for table in ("facts", "rounds"):
            if self._all(f"pragma integrity_check({table})") != [("ok",)]:
                raise self._damaged(f"the table of {table}")
        version = self.fact("format")
        if version not in (None, str(FORMAT)):
            raise Conflict(f"{self._path}: written by another version of this program", hint="use another --out")
        if self._all("select 1 from facts limit 1") and self.fact(_SEAL) != self._sealed():
            raise IntegrityBroken(f"{self._path}: was changed after it was written", hint=_ANEW)
        digests = self._all("select count(*) from facts where key glob ?", f"{_DIGEST}{_ROUND}*")
        if digests != [(self.rounds_done(),)]:
            raise IntegrityBroken(f"{self._path}: a round is missing, or one too many", hint=_ANEW)

    def _sealed(self) -> str:
        """What the seal should be."""
        facts = self._all("select key, value from facts where key != ? order by key", _SEAL)
        texts = (str(text).encode(errors="surrogatepass") for fact in facts for text in fact)
        return sha256(length_prefixed(*texts)).hexdigest()

    def close(self) -> None:
        """Give back file and lock. All is in the one file then, if nobody reads it just now."""
        if self._logging and self._path is not None:
            with suppress(sqlite3.Error):  # then the log stays beside it, and nothing is lost
                self._db.execute("pragma journal_mode = delete")
        self._logging = False
        self._held.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        if not self._logging:
            with self._told():
                self._log(self._db)
        try:
            self._all("begin immediate")
            yield
            self._set(_SEAL, self._sealed())
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
        with self._whole():
            self._set(key, value)

    def _set(self, key: str, value: str) -> None:
        self._all("insert or replace into facts values (?, ?)", key, value)

    def _whole(self) -> AbstractContextManager[None]:
        """The transaction that is open, or one of its own."""
        return nullcontext() if self._db.in_transaction else self.transaction()

    def rounds(self) -> tuple[RoundRecord, ...]:
        """Records of the rounds that are done, in order."""
        rows = self._all("select number, record from rounds order by number")
        texts = [self._checked(f"{_ROUND}{number}", str(text).encode()) for number, text in rows]
        if [row[0] for row in rows] != list(range(len(rows))):
            raise IntegrityBroken(f"{self._path}: a round is missing", hint=_ANEW)
        return tuple(RoundRecord.model_validate_json(text) for text in texts)

    def rounds_done(self) -> int:
        """How many."""
        return int(self._all("select count(*) from rounds")[0][0])

    def add_round(self, record: RoundRecord) -> None:
        """Add the next round's record."""
        text = record.model_dump_json()
        with self._whole():
            self._all("insert into rounds values (?, ?)", record.number, text)
            self._set(f"{_DIGEST}{_ROUND}{record.number}", sha256(text.encode()).hexdigest())

    def put(self, owner: str, arrays: ArrayMap) -> None:
        """Keep the arrays of an owner (`shared`, `personal/<site>`, `kept/<site>`) in place of those it had."""
        data = save(dict(arrays))
        with self._whole():
            self._all("insert or replace into arrays values (?, ?)", owner, data)
            self._set(_DIGEST + owner, sha256(data).hexdigest())

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
        return IntegrityBroken(f"{self._path}: damaged at {what}", hint=_ANEW)

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
                    f"{self._path}: not a run of a simulation, or damaged ({error})", hint=_ANEW
                ) from None
            if code in _REFUSED:
                raise Unavailable(f"{self._path}: {error}", hint=ROOM) from None
            raise
