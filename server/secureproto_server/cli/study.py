"""`secureproto study`: create, show, list, close."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option
from secureproto_server import studying, watching
from secureproto_server.cli.options import (
    confirm_option,
    desk_options,
    dry_run_option,
    open_desk,
    reason_option,
    require_confirmed,
)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--allow-factory", multiple=True, help="A `package.module:factory` that may be run here to build.")
@desk_options
@dry_run_option
@output_option
def create(file: Path, allow_factory: tuple[str, ...], operator: Path, credentials: Path | None, dry_run: bool,
           output: Form) -> None:  # fmt: skip
    """Sign the study FILE, make the initial weights, hand both to the server."""
    desk = open_desk(operator, credentials)
    prepared = studying.prepare(desk, file, allowed_factories=allow_factory)
    if dry_run:
        emit({"would_create": prepared.descriptor.study, "digest": prepared.descriptor.study_digest}, output)
        return
    emit(studying.send(desk, prepared), output)


@click.command()
@click.argument("study")
@desk_options
@output_option
def show(study: str, operator: Path, credentials: Path | None, output: Form) -> None:
    """Show STUDY."""
    found = open_desk(operator, credentials).get(f"studies/{study}", meaning="look at a study")
    emit(watching.shown(found), output)


@click.command("list")
@desk_options
@output_option
def list_(operator: Path, credentials: Path | None, output: Form) -> None:
    """List the studies."""
    emit(open_desk(operator, credentials).get("studies", meaning="list studies"), output)


@click.command()
@click.argument("study")
@confirm_option
@reason_option
@desk_options
@dry_run_option
@output_option
def close(study: str, confirm: str, reason: str, operator: Path, credentials: Path | None, dry_run: bool,
          output: Form) -> None:  # fmt: skip
    """Close STUDY: no round opens any more."""
    require_confirmed(study, confirm)
    desk = open_desk(operator, credentials)
    if dry_run:
        emit({"would_close": study}, output)
        return
    emit(desk.post(f"studies/{study}/close", {"reason": reason}, meaning=f"close study {study}"), output)
