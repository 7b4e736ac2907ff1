"""The site's database file: SQLite, every commit on the disk before the call returns.

Invariants: `synchronous = FULL`, so a state that was reported is still there after a power cut; a transaction is
all or nothing; a file of another schema version is refused and never changed.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from secureproto.errors import Misconfigured, Unavailable

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE rounds (
    study TEXT NOT NULL, round INTEGER NOT NULL, state TEXT NOT NULL, attempt INTEGER NOT NULL,
    base_version INTEGER NOT NULL, manifest BLOB, body TEXT, receipt BLOB, reason TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (study, round)
) STRICT, WITHOUT ROWID;
CREATE TABLE outcomes (
    study TEXT NOT NULL, round INTEGER NOT NULL, outcome TEXT NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (study, round)
) STRICT, WITHOUT ROWID;
CREATE TABLE pins (
    study TEXT PRIMARY KEY, study_digest TEXT NOT NULL, schema_digest TEXT NOT NULL,
    descriptor_digest TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE versions (
    study TEXT NOT NULL, version INTEGER NOT NULL, round INTEGER NOT NULL, final INTEGER NOT NULL,
    PRIMARY KEY (study, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""


class Database:
    """One connection to the file, for one process at a time (the agent holds the site's lock)."""

    def __init__(self, path: Path) -> None:
        """Open the file, made on first use.

        Raises:
            Misconfigured: not a database of this program, or of another version of it.
            Unavailable: the disk does not let us.
        """
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            path.chmod(0o600)
            self._prepare(path)
        except sqlite3.DatabaseError as error:
            raise _explained(path, error) from None
        self._path = path

    def close(self) -> None:
        """Close the file. What was committed stays."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes inside, or none of them; durable at the end.

        Raises:
            Unavailable: the disk is full or gone; then nothing was written.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise _explained(self._path, error) from None

    def write(self, statement: str, *values: object) -> None:
        """One statement inside a transaction."""
        self._connection.execute(statement, values)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._connection.execute(query, values).fetchall()

    def row(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query, if there is one."""
        found: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
        return found

    def _prepare(self, path: Path) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(f"BEGIN;{SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")
        elif version != SCHEMA_VERSION:
            self._connection.close()
            raise Misconfigured(
                f"{path} has schema version {version}, this program knows {SCHEMA_VERSION}",
                hint="run the version of the program that wrote it, or a newer one",
            )


def _explained(path: Path, error: sqlite3.DatabaseError) -> Misconfigured | Unavailable:
    if isinstance(error, sqlite3.OperationalError):
        return Unavailable(f"cannot use {path}: {error}", hint="check the disk, and that no other client runs here")
    return Misconfigured(f"{path} is not the site's journal: {error}", hint="restore it from the backup")
