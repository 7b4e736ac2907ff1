"""What is in a ledger file, and how it is read and checked: shared by the writer and by those who only look.

Rollback journal, not WAL: with WAL the last commits may lie in a second file, which a copy or a restore of the first
leaves behind, and a ledger that lost its end so looks like one that was set back. `synchronous = EXTRA` and not FULL:
in this mode a commit is the removal of the journal, and FULL does not flush the directory that says so.

`digest` stands beside each entry for the last one's sake, which no other entry vouches for: a bit that rots there
would else pass. Whoever means harm can write it anew, and is found by a head known elsewhere only.
"""

import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from secureproto.errors import IntegrityBroken, Misconfigured, SecureProtoError
from secureproto.privacy.ledger.entries import Entry, parse
from secureproto.privacy.ledger.state import State
from secureproto_client.ledger.trouble import RESTORE

APPLICATION_ID = 0x53504C31  # "SPL1": tells a ledger from other databases
SCHEMA_VERSION = 1
STATEMENTS = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, entry BLOB NOT NULL, digest TEXT NOT NULL) STRICT",
    "CREATE TRIGGER no_change BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
    "CREATE TRIGGER no_removal BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END",
)
INSERT = "INSERT INTO entries VALUES (?, ?, ?)"
LAST = "SELECT max(sequence) FROM entries"
BUSY_SECONDS = 10.0  # a reader holds the file for the milliseconds of one look
HEADER_BYTES = 100  # of every SQLite file


@dataclass(frozen=True)
class Expected:
    """What the file at a path must be. "" : not known yet (a ledger that is looked at for the first time)."""

    site: str
    data_set: str = ""
    ledger: str = ""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to an existing file, `mode` ro or rw; one to be made, rwc. Raises sqlite3.Error."""
    # A connection may go to another thread with its owner; SQLite itself is built serialised.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=BUSY_SECONDS,
        check_same_thread=False,
    )
    for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "trusted_schema = OFF", "cell_size_check = ON"):
        if mode != "ro" or not pragma.startswith("journal"):
            connection.execute(f"PRAGMA {pragma}")
    return connection


def demand_file(path: Path) -> None:
    """Check what can be seen of a file before SQLite opens it, and perhaps repairs it.

    Raises:
        Misconfigured: not there, not a file. IntegrityBroken: too short to be a database.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise Misconfigured(f"no ledger at {path}: {error.strerror}", hint=RESTORE) from None
    if not stat.S_ISREG(found.st_mode):
        raise Misconfigured(f"the ledger {path} is not a plain file", hint=RESTORE)
    if found.st_size < HEADER_BYTES:
        raise IntegrityBroken(f"the ledger {path} is cut off: it has {found.st_size} bytes", hint=RESTORE)


def load(connection: sqlite3.Connection, path: Path, expected: Expected) -> tuple[State, tuple[Entry, ...]]:
    """All of a ledger, verified: form, chain, every rule, and that it is the expected one.

    Raises:
        IntegrityBroken: the file or its chain does not hold, or it is another ledger of this site.
        Misconfigured: another program's file, another version's, another site's.
        sqlite3.Error: for `explained`.
    """
    _demand_schema(connection, path)
    _demand_whole(connection, path)
    entries = tuple(_entries(connection, path))
    try:
        state = State.replay(entries)
    except SecureProtoError as error:
        # Whatever rule it breaks: an entry that could not have been appended was not appended by us.
        raise IntegrityBroken(f"the ledger {path} does not hold: {error}", hint=RESTORE) from None
    _demand_identity(state, path, expected)
    return state, entries


def _entries(connection: sqlite3.Connection, path: Path) -> Iterator[Entry]:
    query = "SELECT sequence, entry, digest FROM entries ORDER BY sequence"
    for place, (sequence, data, digest) in enumerate(connection.execute(query)):
        if sequence != place:
            raise IntegrityBroken(f"the ledger {path} does not hold: entry {place} is missing", hint=RESTORE)
        try:
            entry = parse(data)
        except IntegrityBroken as error:
            raise IntegrityBroken(f"the ledger {path}, entry {place}: {error}", hint=RESTORE) from None
        if entry.digest() != digest:
            raise IntegrityBroken(f"the ledger {path}, entry {place}: it is not what was written", hint=RESTORE)
        yield entry


def _demand_schema(connection: sqlite3.Connection, path: Path) -> None:
    ((application,),) = connection.execute("PRAGMA application_id").fetchall()
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if application != APPLICATION_ID:
        raise Misconfigured(f"{path} is a database, but not a ledger", hint="check the path of the data set's ledger")
    if version != SCHEMA_VERSION:
        raise Misconfigured(
            f"the ledger {path} has schema version {version}, this program knows {SCHEMA_VERSION}",
            hint="run the version of the program that wrote it, or a newer one",
        )
    made = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if made != set(STATEMENTS):
        raise IntegrityBroken(f"the ledger {path} is not as it was made: its tables or triggers differ", hint=RESTORE)


def _demand_whole(connection: sqlite3.Connection, path: Path) -> None:
    # SQLite reads zeros where a file ends too early, and then finds rows with nothing in them.
    ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    ((found,), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if path.stat().st_size != pages * size or found != "ok":
        raise IntegrityBroken(f"the ledger {path} is damaged: it is cut off, or its pages do not fit", hint=RESTORE)


def _demand_identity(state: State, path: Path, expected: Expected) -> None:
    opened = state.opened
    if opened.site != expected.site:
        raise Misconfigured(
            f"the ledger {path} is of site {opened.site}, this is {expected.site}", hint="put back this site's own"
        )
    if expected.data_set not in ("", opened.data_set) or expected.ledger not in ("", opened.ledger):
        raise IntegrityBroken(
            f"the ledger {path} is of data set {opened.data_set[:16]} (ledger {opened.ledger[:16]}), not the one"
            " that belongs here",
            hint=RESTORE,
        )
