"""Printing: data on stdout in the form that was asked for, talk on stderr.

Invariant: the exit code and what is computed never depend on the form.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Form = Literal["table", "json", "jsonl"]
Row = Mapping[str, object]
F = TypeVar("F", bound=Callable[..., object])

PIPE_WIDTH = 240
GAP = 2  # between columns
LEAST_NAME = 12  # columns that a name keeps where lines need not be broken elsewhere
# what a row is about stands first and is never folded; answers of the server come with their keys in order of name
LEADING = ("sequence", "time", "study", "site", "round", "model", "version", "what")


def output_option(function: F) -> F:
    """Adds `-o table|json|jsonl` as the keyword `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "jsonl"]),
        default="table",
        show_default=True,
        help="Form of what goes to stdout.",
    )(function)


def say(text: str) -> None:
    """Talk for a person: to stderr, so that stdout stays data."""
    click.echo(text, err=True)


def emit(value: Row | Sequence[Row], output: Form) -> None:
    """Print one record or a list of records to stdout."""
    if output == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    elif output == "jsonl":
        for row in _rows(value):
            click.echo(json.dumps(row, ensure_ascii=False, default=str))
    elif isinstance(value, Mapping):
        _pairs(value)
    else:
        _table(list(value))


class Shown(Protocol):
    """A text of a cell; `best` ones are bold."""

    @property
    def text(self) -> str: ...
    @property
    def best(self) -> bool: ...


class Block(Protocol):
    """A table under its title, with notes after it."""

    @property
    def title(self) -> str: ...
    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def rows(self) -> Sequence[Sequence[Shown]]: ...
    @property
    def notes(self) -> Sequence[str]: ...


def emit_blocks(blocks: Sequence[Block]) -> None:
    """Print tables one after the other to stdout, each within the width of the terminal.

    The first column, which holds names, gives way first; where that is not enough each row becomes a list of its
    cells, a line each, so that no number is ever cut.
    """
    from rich.text import Text

    console = _console()
    for number, block in enumerate(blocks):
        if number:
            console.print()
        if block.title:
            console.print(Text(block.title, style="bold"))
        texts = [[column, *(row[place].text for row in block.rows)] for place, column in enumerate(block.columns)]
        if sum(max(map(len, column)) + GAP for column in texts[1:]) + LEAST_NAME <= console.width:
            console.print(_side_by_side(block))
        else:
            _one_below_another(block, console)
        for note in block.notes:
            console.print(Text(note, style="dim"))


def _side_by_side(block: Block) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, column in enumerate(block.columns):
        table.add_column(Text(column), overflow="fold", no_wrap=place > 0)
    for row in block.rows:
        table.add_row(*(Text(cell.text, style="bold" if cell.best else "") for cell in row))
    return table


def _one_below_another(block: Block, console: "Console") -> None:
    """The first cell of a row, under it the others with the names of their columns."""
    from rich.text import Text

    width = max(map(len, block.columns[1:]), default=0) + GAP
    for row in block.rows:
        console.print(Text(row[0].text, style="bold"))
        for column, cell in zip(block.columns[1:], row[1:], strict=True):
            console.print(Text(f"  {column:<{width}}").append(cell.text, style="bold" if cell.best else ""))


def _rows(value: Row | Sequence[Row]) -> Sequence[Row]:
    return [value] if isinstance(value, Mapping) else value


def _pairs(record: Row) -> None:
    width = max((len(key) for key in record), default=0)
    for key, value in record.items():
        click.echo(f"{key:<{width}}  {_text(value)}")


def _table(rows: list[Row]) -> None:
    if not rows:
        say("nothing to list")
        return
    from rich.table import Table  # only a table needs it: `--help` stays light
    from rich.text import Text

    # a cell is a text: brackets in it are no markup
    table = Table(box=None, header_style="bold", pad_edge=False)
    columns = sorted(rows[0], key=lambda name: LEADING.index(name) if name in LEADING else len(LEADING))
    for column in columns:
        table.add_column(Text(column), overflow="fold", no_wrap=column in LEADING)
    for row in rows:
        table.add_row(*(Text(_text(row.get(column))) for column in columns))
    _console().print(table)


def _console() -> "Console":
    from rich.console import Console

    # A pipe has no width: whole lines are wanted there, not lines folded at 80.
    return Console(file=sys.stdout) if sys.stdout.isatty() else Console(file=sys.stdout, width=PIPE_WIDTH)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return str(value)
