"""A CSV file as rows of named texts, or one line on why it is none.

Invariants: a message names rows, columns that the study or the settings name, and positions; never a text of
the file, not even of its header, for a file without a header begins with a patient.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from secureproto.errors import Misconfigured
from secureproto.regular import open_regular
from secureproto.study.features import BadRecord

if TYPE_CHECKING:
    from _csv import Reader

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


@dataclass(frozen=True)
class Row:
    """A row of the file: its number without the header, its last line, and its fields."""

    number: int
    line: int
    fields: Sequence[str]

    @property
    def where(self) -> str:
        """The row as an engineer finds it in an editor."""
        return f"row {self.number} (line {self.line})"


class Columns:
    """The header of a file: from a column's name to its position."""

    def __init__(self, names: Sequence[str]) -> None:
        self._width = len(names)
        self._index = {name: index for index, name in enumerate(names)}

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def take(self, row: Row, wanted: Mapping[str, str]) -> dict[str, str]:
        """The fields of a row under new names (`wanted`: new name → the file's). Raises BadRecord if ragged."""
        if len(row.fields) != self._width:
            raise BadRecord(f"{len(row.fields)} fields; the header has {self._width}")
        return {name: row.fields[self._index[own]].strip() for name, own in wanted.items()}


@contextmanager
def open_table(path: Path, delimiter: str, required: Sequence[str]) -> Iterator[tuple[Columns, Iterator[Row]]]:
    """The header and the rows of a CSV file that has at least the `required` columns; empty lines are skipped.

    Raises:
        Misconfigured: unreadable, empty, not UTF-8, not CSV, a column missing or twice. While rows are taken
            too: all of the file is never in memory.
    """
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            try:
                names = [name.strip() for name in next(reader, [])]
                _check_header(path, names, delimiter, required)
                yield Columns(names), _rows(reader)
            except csv.Error:
                raise Misconfigured(
                    f"{path}: line {reader.line_num}: not CSV (a quote is not closed, or is in a field without)",
                    hint="export the file again, with every quote doubled inside quotes",
                ) from None
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}", hint="check data.path and rights") from None
    except UnicodeDecodeError:
        raise Misconfigured(
            f"{path}: line {_first_undecodable(path)}: not UTF-8", hint="export the file as UTF-8"
        ) from None


def _rows(reader: "Reader") -> Iterator[Row]:
    number = 0
    for fields in reader:
        if fields:
            number += 1
            yield Row(number, reader.line_num, fields)


def _check_header(path: Path, names: Sequence[str], delimiter: str, required: Sequence[str]) -> None:
    if not names:
        raise Misconfigured(f"{path}: line 1: no header; the file is empty or begins with an empty line")
    others = [word for sign, word in _DELIMITERS.items() if sign != delimiter and sign in names[0]]
    if len(names) == 1 and len(required) > 1 and others:
        given = _DELIMITERS.get(delimiter, "given one")
        raise Misconfigured(
            f"{path}: line 1: one column only; the delimiter looks like a {others[0]}, not a {given}",
            hint="set data.delimiter",
        )
    first: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if name in first:
            raise Misconfigured(f"{path}: line 1: columns {first[name]} and {position} have the same name")
        first[name] = position
    missing = [name for name in required if name not in first]
    if missing:
        raise Misconfigured(
            f"{path}: line 1: no column {', '.join(missing)}",
            hint="if the file names it otherwise, say so under data.columns; names are case-sensitive",
        )


def _first_undecodable(path: Path) -> int:
    """The number of the first line that is not UTF-8."""
    with open_regular(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1
