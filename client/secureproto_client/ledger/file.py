"""A data set's ledger in one SQLite file: append-only, every entry on the disk before the call returns.

Invariants:
- one process at a time writes (`LedgerLock`); the whole chain is verified when the file is opened, each entry after
  that against the state in memory, and the file must still end where that state does;
- an append is one transaction: all of it or nothing. If it is not known which, no more is taken until the file is
  opened, and so verified, again;
- a ledger comes into being whole, with its first entry, under its name; it never replaces another.
That the file is not an older copy of itself, it cannot tell: `require_at_least` does, from heads known elsewhere.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured, SecureProtoError, Unavailable
from secureproto.privacy.ledger.entries import Entry, Opened, writable
from secureproto.privacy.ledger.state import State, heads_of
from secureproto_client.durable import PRIVATE_FILE, sync_directory
from secureproto_client.ledger import schema
from secureproto_client.ledger.lock import LedgerLock
from secureproto_client.ledger.schema import Expected
from secureproto_client.ledger.trouble import FREE, RESTORE, WRITABLE, explained


class SqliteLedger:
    """The `Ledger` of a file. Made by `create` and `open`."""

    def __init__(self, path: Path, expected: Expected, lock: LedgerLock) -> None:
        """For `create` and `open`, which hold the lock. Raises: as `open`."""
        self._path, self._lock, self._usable = path, lock, True
        schema.demand_file(path)
        if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
            raise Misconfigured(
                f"the ledger {path} cannot be written: it or its directory is read-only", hint=WRITABLE
            )
        with _explaining(path):
            self._connection = schema.connect(path, "rw")
        try:
            with _explaining(path):
                self._state, entries = schema.load(self._connection, path, expected)
        except BaseException:
            self._connection.close()
            raise
        self._heads = {head for entry in entries for head in heads_of(entry)}
        self._file = _file_of(path)

    @classmethod
    def open(cls, path: Path, expected: Expected) -> Self:
        """The ledger at `path`, verified from its first entry to its last.

        Raises:
            Conflict: another process has it.
            IntegrityBroken: empty, cut off, damaged, a broken chain, or another ledger of this site.
            Misconfigured: not there, another site's, another program's or version's, or not ours to write.
            Unavailable: the disk fails.
        """
        lock = LedgerLock(path)
        try:
            return cls(path, expected, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def create(cls, path: Path, opened: Opened) -> Self:
        """A new ledger with its first entry, which `check_opening` has passed.

        Raises:
            Conflict: there is a file, or another process makes one. Misconfigured, Unavailable: it cannot be written.
        """
        State.begin(opened)
        lock = LedgerLock(path)
        try:
            _make(path, opened)
            return cls(path, Expected(opened.site, opened.data_set, opened.ledger), lock)
        except BaseException:
            lock.release()
            raise

    @property
    def state(self) -> State:
        return self._state

    def append(self, entry: Entry) -> State:
        state, data = self._state.after(entry), writable(entry)
        if not self._usable:
            raise self._closed()
        if _file_of(self._path) != self._file:
            raise IntegrityBroken(f"the ledger {self._path} was replaced while it was in use", hint=RESTORE)
        try:
            with _explaining(self._path):
                self._write(entry, data)
        except BaseException:
            self._settle()
            raise
        self._state = state
        self._heads |= heads_of(entry)
        return state

    def entries(self) -> tuple[Entry, ...]:
        if not self._usable:
            raise self._closed()
        with _explaining(self._path):
            return schema.load(self._connection, self._path, Expected(self._state.opened.site))[1]

    def find(self, head: str) -> bool:
        return head in self._heads

    def close(self) -> None:
        self._usable = False
        self._connection.close()
        self._lock.release()

    def _closed(self) -> Unavailable:
        return Unavailable(f"the ledger {self._path} is closed, or an append failed: open it again", hint=FREE)

    def _write(self, entry: Entry, data: bytes) -> None:
        self._run("BEGIN IMMEDIATE")
        ((last,),) = self._run(schema.LAST)
        if last != self._state.head.sequence:
            raise IntegrityBroken(f"the ledger {self._path} was written to by another program", hint=RESTORE)
        self._run(schema.INSERT, entry.sequence, data, entry.digest())
        self._run("COMMIT")

    def _run(self, statement: str, *values: object) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def _settle(self) -> None:
        """After a failure: nothing was appended, or nothing more can be."""
        self._usable = False
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            ((last,),) = self._connection.execute(schema.LAST).fetchall()
        except sqlite3.Error:
            return
        self._usable = last == self._state.head.sequence


def read(path: Path, expected: Expected) -> tuple[State, tuple[Entry, ...]]:
    """A ledger to look at, verified, also while a client writes to it; the file is not changed.

    Raises:
        As `SqliteLedger.open`, without the lock and without the need to write.
    """
    schema.demand_file(path)
    with _explaining(path):
        connection = schema.connect(path, "ro")
        try:
            return schema.load(connection, path, expected)
        finally:
            connection.close()


def _make(path: Path, opened: Opened) -> None:
    """Under the lock: write the file under another name, flush it, and give it its name if that is free."""
    draft = path.with_name(f".{path.name}.new")
    journal = draft.with_name(f"{draft.name}-journal")
    try:
        for left in (draft, journal):  # of a creation that was killed
            left.unlink(missing_ok=True)
        if path.is_symlink() or path.exists():
            raise Conflict(f"there is a ledger at {path}", hint="a ledger is opened once; open that one")
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
        with _explaining(draft):
            _fill(draft, opened)
        draft.rename(path)
        sync_directory(path.parent)
    except OSError as error:
        raise Unavailable(f"cannot make the ledger {path}: {error.strerror}", hint=FREE) from None
    finally:
        for left in (draft, journal):
            left.unlink(missing_ok=True)


def _fill(draft: Path, opened: Opened) -> None:
    connection = schema.connect(draft, "rw")
    try:
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION}")
        connection.execute("BEGIN IMMEDIATE")
        for statement in schema.STATEMENTS:
            connection.execute(statement)
        connection.execute(schema.INSERT, (opened.sequence, writable(opened), opened.digest()))
        connection.execute("COMMIT")
    finally:
        connection.close()


def _file_of(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise IntegrityBroken(f"the ledger {path} is gone: {error.strerror}", hint=RESTORE) from None
    return found.st_dev, found.st_ino


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except SecureProtoError:
        raise
    except sqlite3.Error as error:
        raise explained(path, error) from None
