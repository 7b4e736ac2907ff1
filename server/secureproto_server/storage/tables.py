"""The tables, generated from the rows: one column a field, keys, unique fields, references and states as constraints.

The constraints repeat what `store` checks: they are the backstop against a change made behind the program's back.
"""

from dataclasses import fields
from enum import StrEnum
from typing import Any, get_args, get_type_hints

import sqlalchemy as sa

from secureproto_server.storage.records import KINDS, Row

# PostgreSQL sorts text by locale unless told; keys sort by code point in every store
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
NAMES = {
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}

metadata = sa.MetaData(naming_convention=NAMES)


def _table_name(kind: type[Row]) -> str:
    # prefixed, so that no word of SQL (nor a neighbour in a shared database) collides
    return f"sp_{kind.__name__.lower()}"


def _column_type(python: Any) -> sa.types.TypeEngine[Any]:
    if python is int:
        return sa.BigInteger()
    if python is bytes:
        return sa.LargeBinary()
    if isinstance(python, type) and issubclass(python, StrEnum):
        return sa.Enum(
            python,
            native_enum=False,  # a new state is then an ordinary migration
            create_constraint=True,
            name=python.__name__.lower(),
            length=16,
            values_callable=lambda states: [state.value for state in states],
        )
    return TEXT


def _column(kind: type[Row], name: str, hint: Any) -> sa.Column[Any]:
    alternatives = [t for t in get_args(hint) if t is not type(None)]
    python = alternatives[0] if alternatives else hint
    return sa.Column(
        name,
        _column_type(python),
        primary_key=name in kind.KEY,
        autoincrement=False,
        nullable=bool(alternatives),
    )


def _table(kind: type[Row]) -> sa.Table:
    hints = get_type_hints(kind)
    columns = [_column(kind, field.name, hints[field.name]) for field in fields(kind)]
    unique = [sa.UniqueConstraint(name) for name in kind.UNIQUE]
    foreign = [
        sa.ForeignKeyConstraint(
            reference.fields, [f"{_table_name(reference.kind)}.{part}" for part in reference.kind.KEY]
        )
        for reference in kind.REFERENCES
    ]
    return sa.Table(_table_name(kind), metadata, *columns, *unique, *foreign)


TABLES: dict[type[Row], sa.Table] = {kind: _table(kind) for kind in KINDS}
