"""The statements of the store, each built once a table: building one costs more than running it.

A bound value of a key is called `key_<column>`, one of a condition `is_<column>`: a column itself keeps its name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import sqlalchemy as sa

from secureproto_server.storage.records import Row, Value

Names = tuple[str, ...]


@cache
def get(table: sa.Table, key: Names) -> sa.Select[Any]:
    """The row of a key."""
    return sa.select(table).where(*_at(table, key))


@cache
def select(table: sa.Table, key: Names, given: Names, absent: Names) -> sa.Select[Any]:
    """Rows whose columns `given` have the bound values and whose columns `absent` have none, in key order."""
    conditions = [table.c[name] == sa.bindparam(f"is_{name}") for name in given]
    conditions += [table.c[name].is_(None) for name in absent]
    return sa.select(table).where(*conditions).order_by(*(table.c[name] for name in key))


@cache
def insert(table: sa.Table) -> sa.Insert:
    """A new row; its values are bound by the columns' names."""
    return sa.insert(table)


@cache
def update(table: sa.Table, key: Names) -> sa.Update:
    """Every column of the row of a key."""
    return sa.update(table).where(*_at(table, key))


@cache
def delete(table: sa.Table, key: Names) -> sa.Delete:
    """Remove the row of a key."""
    return sa.delete(table).where(*_at(table, key))


def at_key(kind: type[Row], key: Sequence[Value]) -> dict[str, Value]:
    """The bound values of a key."""
    return {f"key_{name}": part for name, part in zip(kind.KEY, key, strict=True)}


def having(equals: Mapping[str, Value]) -> dict[str, Value]:
    """The bound values of conditions."""
    return {f"is_{name}": value for name, value in equals.items() if value is not None}


def values(row: Row) -> dict[str, Value]:
    """The bound values of a row's columns."""
    return {field.name: getattr(row, field.name) for field in fields(row)}


def _at(table: sa.Table, key: Names) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == sa.bindparam(f"key_{name}") for name in key]
