"""The store in memory: for simulations and tests, of the same contract as `sql`, only not durable.

Invariant: a rolled-back transaction leaves no trace; each write notes what it replaced, and the notes are undone
backwards.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from secureproto_server.storage.records import KINDS, Row, Value, key_of
from secureproto_server.storage.store import (
    R,
    Transaction,
    require_fields,
    require_insertable,
    require_key,
    require_puttable,
    require_unreferenced,
)
from secureproto_server.storage.turn import Turn

Key = tuple[Any, ...]  # str and int parts: comparable within one kind
Tables = dict[type[Row], dict[Key, Row]]


class MemoryTransaction:
    """Reads and writes of one block."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._undo: list[tuple[type[Row], Key, Row | None]] = []
        self._open = True

    def get(self, kind: type[R], *key: Value) -> R | None:
        require_key(kind, key)
        return cast(R | None, self._table(kind).get(key))

    def select(
        self, kind: type[R], *, after: Sequence[Value] | None = None, limit: int | None = None, **equals: Value
    ) -> list[R]:
        require_fields(kind, list(equals))
        if after is not None:
            require_key(kind, after)
        found = [
            row
            for key, row in sorted(self._table(kind).items())
            if (after is None or key > tuple(after)) and all(getattr(row, f) == v for f, v in equals.items())
        ]
        return cast(list[R], found[:limit])

    def insert(self, row: Row) -> None:
        require_insertable(self, row)
        self._write(type(row), key_of(row), row)

    def put(self, row: Row) -> None:
        require_puttable(self, row)
        self._write(type(row), key_of(row), row)

    def delete(self, kind: type[Row], *key: Value) -> bool:
        if self.get(kind, *key) is None:
            return False
        require_unreferenced(self, kind, key)
        self._write(kind, key, None)
        return True

    def end(self, *, undo: bool) -> None:
        """End the transaction, taking back what it wrote if `undo`."""
        if undo:
            for kind, key, row in reversed(self._undo):
                self._set(kind, key, row)
        self._open = False

    def _table(self, kind: type[Row]) -> dict[Key, Row]:
        if not self._open:
            raise ValueError("the transaction has ended")
        return self._tables[kind]

    def _write(self, kind: type[Row], key: Key, row: Row | None) -> None:
        self._undo.append((kind, key, self._table(kind).get(key)))
        self._set(kind, key, row)

    def _set(self, kind: type[Row], key: Key, row: Row | None) -> None:
        if row is None:
            self._tables[kind].pop(key, None)
        else:
            self._tables[kind][key] = row


class MemoryStore:
    """Rows in dictionaries behind one lock."""

    def __init__(self) -> None:
        self._tables: Tables = {kind: {} for kind in KINDS}
        self._turn = Turn()

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        with self._turn.taken(name):
            transaction = MemoryTransaction(self._tables)
            try:
                yield transaction
            except BaseException:
                transaction.end(undo=True)
                raise
            transaction.end(undo=False)

    def close(self) -> None:
        """Nothing to release."""
