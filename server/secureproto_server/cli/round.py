"""`secureproto round`: open, status, watch, abort."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option
from secureproto_server import watching
from secureproto_server.cli.options import (
    confirm_option,
    desk_options,
    dry_run_option,
    open_desk,
    reason_option,
    require_confirmed,
)


@click.command("open")
@click.argument("study")
@click.option(
    "--rounds", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="One after the other."
)
@click.option("--wait", is_flag=True, help="Until the last of them has ended, showing each end.")
@click.option("--timeout", type=float, default=3600.0, show_default=True, help="Seconds to wait.")
@desk_options
@dry_run_option
@output_option
def open_(study: str, rounds: int, wait: bool, timeout: float, operator: Path, credentials: Path | None,
          dry_run: bool, output: Form) -> None:  # fmt: skip
    """Open rounds of STUDY: sites are invited, and train."""
    desk = open_desk(operator, credentials)
    if dry_run:
        emit({"would_open": rounds, **desk.get(f"studies/{study}", meaning="look at a study")}, output)
        return
    opened = desk.post(f"studies/{study}/rounds", {"rounds": rounds}, meaning=f"open {rounds} rounds of {study}")
    if not wait:
        emit(opened, output)
        return
    ends = watching.until_idle(desk, study, first=opened["round"], timeout=timeout)
    emit(ends, output)
    watching.demand_completed(ends)


@click.command()
@click.argument("study")
@click.option("--round", "number", type=click.IntRange(0), help="Which; default: the last.")
@desk_options
@output_option
def status(study: str, number: int | None, operator: Path, credentials: Path | None, output: Form) -> None:
    """Show a round of STUDY: phase, deadline, who has answered."""
    emit(watching.shown(watching.round_of(open_desk(operator, credentials), study, number)), output)


@click.command()
@click.argument("study")
@click.option("--timeout", type=float, default=3600.0, show_default=True, help="Seconds.")
@desk_options
@output_option
def watch(study: str, timeout: float, operator: Path, credentials: Path | None, output: Form) -> None:
    """Follow the rounds of STUDY until none is wanted any more; then list their ends."""
    ends = watching.until_idle(open_desk(operator, credentials), study, first=None, timeout=timeout)
    emit(ends, output)
    watching.demand_completed(ends)


@click.command()
@click.argument("study")
@click.argument("number", type=click.IntRange(0))
@confirm_option
@reason_option
@desk_options
@dry_run_option
@output_option
def abort(study: str, number: int, confirm: str, reason: str, operator: Path, credentials: Path | None,
          dry_run: bool, output: Form) -> None:  # fmt: skip
    """End round NUMBER of STUDY; its uploads are thrown away, and no further round opens by itself."""
    require_confirmed(study, confirm)
    desk = open_desk(operator, credentials)
    if dry_run:
        emit({"would_abort": number, **watching.shown(watching.round_of(desk, study, number))}, output)
        return
    path = f"studies/{study}/rounds/{number}/abort"
    emit(desk.post(path, {"reason": reason}, meaning=f"abort round {number} of {study}"), output)
