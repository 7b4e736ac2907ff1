"""The store of rows: one seam, which memory and SQL implement alike (`tests/contract/`).

What a store owes, and its contract tests check:
1. `transaction(name)` is serialised: one at a time in the whole store, so that a check and the write that depends
   on it cannot be separated by another writer.
2. It is atomic and durable: leaving the block normally commits, an exception rolls everything back and goes on.
3. A taken key or a unique field taken by another row is Conflict, and the transaction goes on unharmed.
4. A row whose reference does not exist, or a deletion that would leave such a row, is misuse: ValueError.
5. A transaction within a transaction of the same thread, or used after its end, is misuse: ValueError.

What the caller owes: a transaction is short, holds no network and no large file, and is not kept open across an
await. `name` is the word of the protocol for the transition; it stands in errors.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any, Protocol, TypeVar

from secureproto.errors import Conflict
from secureproto_server.storage.records import KINDS, Row, Value, identity, key_of

R = TypeVar("R", bound=Row)


class Transaction(Protocol):
    """All reads and writes."""

    def get(self, kind: type[R], *key: Value) -> R | None:
        """The row of that key, or None."""
        ...

    def select(
        self,
        kind: type[R],
        *,
        after: Sequence[Value] | None = None,
        limit: int | None = None,
        **equals: Value,
    ) -> list[R]:
        """Rows whose fields equal the given values, in key order.

        `after` starts behind that key (it need not exist) and `limit` bounds the number: a long table is read in
        pages.
        """
        ...

    def insert(self, row: Row) -> None:
        """Add a row.

        Raises:
            Conflict: its key, or one of its unique fields, is taken.
        """
        ...

    def put(self, row: Row) -> None:
        """Add a row or replace the one of the same key.

        Raises:
            Conflict: one of its unique fields is taken by another row.
        """
        ...

    def delete(self, kind: type[Row], *key: Value) -> bool:
        """Remove the row of that key; says whether there was one."""
        ...


class Store(Protocol):
    """Where the rows are."""

    def transaction(self, name: str) -> AbstractContextManager[Transaction]:
        """Begin a transaction.

        Raises:
            Unavailable: the database cannot be reached, is locked by another process, or its disk is full.
        """
        ...

    def close(self) -> None:
        """Release what the store holds; no transaction may be open."""
        ...


def require_key(kind: type[Row], key: Sequence[Value]) -> None:
    """Refuse a key that does not have the kind's number of parts."""
    if len(key) != len(kind.KEY):
        raise ValueError(f"the key of {kind.__name__} is {kind.KEY}")


def require_fields(kind: type[Row], names: Sequence[str]) -> None:
    """Refuse a selection by a field the kind does not have."""
    unknown = set(names) - {field.name for field in fields(kind)}
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {sorted(unknown)}")


def require_insertable(transaction: Transaction, row: Row) -> None:
    """Refuse a row that `insert` must refuse. Safe as a check before the write because writers are serialised."""
    if transaction.get(type(row), *key_of(row)) is not None:
        raise Conflict(f"{identity(row)} exists already")
    require_puttable(transaction, row)


def require_puttable(transaction: Transaction, row: Row) -> None:
    """Refuse a row that takes another row's unique field, or refers to a row that does not exist."""
    kind = type(row)
    for field in kind.UNIQUE:
        equals: dict[str, Any] = {field: getattr(row, field)}
        taken = transaction.select(kind, **equals)
        if any(key_of(other) != key_of(row) for other in taken):
            raise Conflict(f"{identity(row)}: its {field} belongs to another {kind.__name__.lower()}")
    for reference in kind.REFERENCES:
        key = [getattr(row, field) for field in reference.fields]
        if transaction.get(reference.kind, *key) is None:
            raise ValueError(f"{identity(row)} refers to a {reference.kind.__name__.lower()} that does not exist")


def require_unreferenced(transaction: Transaction, kind: type[Row], key: Sequence[Value]) -> None:
    """Refuse to delete a row that another row refers to."""
    for child in KINDS:
        for reference in child.REFERENCES:
            equals: dict[str, Any] = dict(zip(reference.fields, key, strict=False))
            if reference.kind is kind and transaction.select(child, limit=1, **equals):
                raise ValueError(f"a {child.__name__.lower()} still refers to this {kind.__name__.lower()}")
