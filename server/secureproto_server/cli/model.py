"""`secureproto model`: list and export published versions."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option, say
from secureproto_server import studying, watching
from secureproto_server.cli.options import desk_options, open_desk


@click.command("list")
@click.argument("study")
@desk_options
@output_option
def list_(study: str, operator: Path, credentials: Path | None, output: Form) -> None:
    """List the published versions of STUDY."""
    rows = open_desk(operator, credentials).get(f"studies/{study}/models", meaning="list models")
    emit([watching.shown(row) for row in rows], output)


@click.command()
@click.argument("study")
@click.option("--version", type=click.IntRange(0), help="Which; default: the newest.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="A safetensors file.")
@desk_options
@output_option
def export(study: str, version: int | None, out: Path, operator: Path, credentials: Path | None,
           output: Form) -> None:  # fmt: skip
    """Export the shared part of a version (extractor and prototypes) as safetensors. Heads belong to the sites."""
    record = studying.export(open_desk(operator, credentials), study, version, out)
    say(f"written: {out}")
    emit(record, output)
