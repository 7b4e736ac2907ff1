"""Printing: data on stdout in the form that was asked for, talk on stderr.

Invariant: the exit code and what is computed never depend on the form.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

import click

Form = Literal["table", "json", "jsonl"]
Row = Mapping[str, object]
F = TypeVar("F", bound=Callable[..., object])

PIPE_WIDTH = 240
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
    from rich.console import Console  # only a table needs it: `--help` stays light
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    columns = sorted(rows[0], key=lambda name: LEADING.index(name) if name in LEADING else len(LEADING))
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in LEADING)
    for row in rows:
        table.add_row(*(_text(row.get(column)) for column in columns))
    # A pipe has no width: whole lines are wanted there, not lines folded at 80.
    console = Console(file=sys.stdout) if sys.stdout.isatty() else Console(file=sys.stdout, width=PIPE_WIDTH)
    console.print(table)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return str(value)
