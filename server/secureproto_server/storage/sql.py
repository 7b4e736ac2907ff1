"""The store in a database: SQLAlchemy Core, SQLite on one host, PostgreSQL for several.

Invariants:
- One writer: BEGIN IMMEDIATE on SQLite, an advisory lock of the transaction on PostgreSQL; within the process a
  lock before that, so that threads queue fairly instead of polling the database.
- A commit is on the disk: WAL with synchronous=FULL.
- Every statement is built by SQLAlchemy with bound values; none is put together from text.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from secureproto.errors import IntegrityBroken, Misconfigured, Unavailable
from secureproto_server.storage import statements
from secureproto_server.storage.records import Row, Value, key_of
from secureproto_server.storage.store import (
    R,
    Transaction,
    require_fields,
    require_insertable,
    require_key,
    require_puttable,
    require_unreferenced,
)
from secureproto_server.storage.tables import TABLES
from secureproto_server.storage.turn import Turn

BUSY_SECONDS = 10  # another process (offline maintenance) holds the file briefly; longer means it is stuck
ADVISORY_LOCK = 0x5EC0DE  # any constant: only this program takes it


class SqlTransaction:
    """Reads and writes of one block."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection

    def get(self, kind: type[R], *key: Value) -> R | None:
        require_key(kind, key)
        found = self._rows(kind, statements.get(TABLES[kind], kind.KEY), statements.at_key(kind, key))
        return found[0] if found else None

    def select(
        self, kind: type[R], *, after: Sequence[Value] | None = None, limit: int | None = None, **equals: Value
    ) -> list[R]:
        require_fields(kind, list(equals))
        absent = tuple(name for name, value in equals.items() if value is None)
        given = tuple(name for name in equals if name not in absent)
        statement = statements.select(TABLES[kind], kind.KEY, given, absent)
        if after is not None:
            require_key(kind, after)
            statement = statement.where(_behind([TABLES[kind].c[name] for name in kind.KEY], after))
        if limit is not None:
            statement = statement.limit(limit)
        return self._rows(kind, statement, statements.having(equals))

    def insert(self, row: Row) -> None:
        require_insertable(self, row)
        self._execute(statements.insert(TABLES[type(row)]), statements.values(row))

    def put(self, row: Row) -> None:
        require_puttable(self, row)
        kind, values = type(row), statements.values(row)
        table = TABLES[kind]
        at = statements.at_key(kind, key_of(row))
        if self._execute(statements.update(table, kind.KEY), values | at).rowcount == 0:
            self._execute(statements.insert(table), values)

    def delete(self, kind: type[Row], *key: Value) -> bool:
        require_key(kind, key)
        require_unreferenced(self, kind, key)
        return self._execute(statements.delete(TABLES[kind], kind.KEY), statements.at_key(kind, key)).rowcount > 0

    def end(self) -> None:
        """From now on every call is refused."""
        self._connection = None

    def _rows(self, kind: type[R], statement: sa.Select[Any], bound: Mapping[str, Value]) -> list[R]:
        return [kind(**row) for row in self._execute(statement, bound).mappings()]

    def _execute(self, statement: sa.Executable, bound: Mapping[str, Value]) -> sa.CursorResult[Any]:
        if self._connection is None:
            raise ValueError("the transaction has ended")
        result = self._connection.execute(statement, bound)
        assert isinstance(result, sa.CursorResult)  # noqa: S101 - Core returns no other kind; narrows the type
        return result


class SqlStore:
    """Rows in a database whose schema is up to date (see `migrate.upgrade`)."""

    def __init__(self, url: str) -> None:
        """Open the database of an SQLAlchemy URL, e.g. `sqlite:////var/lib/secureproto/state.db`.

        Raises:
            Misconfigured: the URL names no database that is supported.
        """
        self._engine = make_engine(url)
        self._turn = Turn()

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        with self._turn.taken(name), translated(name), self._engine.begin() as connection:
            transaction = SqlTransaction(connection)
            try:
                yield transaction
            finally:
                transaction.end()

    def close(self) -> None:
        self._engine.dispose()


def make_engine(url: str) -> Engine:
    """An engine whose transactions are serialised and durable, as this module promises."""
    try:
        parsed = sa.make_url(url)
    except SQLAlchemyError:
        raise Misconfigured(
            "the database URL cannot be read", hint="e.g. sqlite:////var/lib/secureproto/state.db"
        ) from None
    match parsed.get_backend_name():
        case "sqlite" if parsed.database and parsed.database != ":memory:":
            _create_file(Path(parsed.database))
            engine = sa.create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
            event.listen(engine, "connect", _configure_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        case "postgresql":
            engine = sa.create_engine(parsed, pool_pre_ping=True)
            event.listen(engine, "begin", _begin_postgresql)
        case other:
            raise Misconfigured(
                f"the database {other!r} is not supported here", hint="use a SQLite file or PostgreSQL"
            )
    return engine


def _create_file(path: Path) -> None:
    # SQLite itself would make it readable for everyone; its WAL files take over the mode
    try:
        path.touch(mode=0o600, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"the database {path} cannot be opened: {error.strerror}",
            hint="the state directory must exist and be ours",
        ) from None


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn the database's errors into ours: nobody's fault (Unavailable), or an alarm (IntegrityBroken)."""
    try:
        yield
    except IntegrityError as error:
        # the checks before each write exclude it, unless the tables were changed behind the program's back
        raise IntegrityBroken(f"transaction {name!r}: the database refused a row: {_kind_of(error)}") from error
    except DBAPIError as error:
        raise Unavailable(
            f"transaction {name!r} failed in the database: {_kind_of(error)}",
            hint="see that the database is reachable, its disk has space, and no other process holds it",
        ) from error


def _kind_of(error: DBAPIError) -> str:
    # never str(error): it holds the bound values
    name = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    return str(name or type(error.orig).__name__)


def _behind(columns: Sequence[sa.ColumnElement[Any]], key: Sequence[Value]) -> sa.ColumnElement[bool]:
    if len(columns) == 1:
        return columns[0] > key[0]
    return sa.tuple_(*columns) > sa.tuple_(*(sa.literal(part) for part in key))


def _configure_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself; `_begin_sqlite` does
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_postgresql(connection: Connection) -> None:
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%(lock)s)", {"lock": ADVISORY_LOCK})
