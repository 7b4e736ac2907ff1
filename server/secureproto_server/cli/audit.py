"""`secureproto audit tail|export`: read the running server's log. (`audit verify` needs no server.)"""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option, say
from secureproto_server import auditing
from secureproto_server.cli.options import desk_options, open_desk


@click.command()
@click.option("--count", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many entries.")
@desk_options
@output_option
def tail(count: int, operator: Path, credentials: Path | None, output: Form) -> None:
    """Show the log's last entries."""
    emit(auditing.tail(open_desk(operator, credentials), count), output)


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The export's file.")
@desk_options
@output_option
def export(out: Path, operator: Path, credentials: Path | None, output: Form) -> None:
    """Write the whole log and its signed checkpoint to a file that `audit verify` takes."""
    record = auditing.export_log(open_desk(operator, credentials), out)
    say(f"verify it with: secureproto audit verify {out} --root {operator / 'root.json'}")
    emit(record, output)
