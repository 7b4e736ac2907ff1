"""`secureproto audit verify`: the part of the noun that needs no server."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option, say

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("log", type=FILE)
@click.option("--root", required=True, type=FILE, help="Root document, got by a way of your own.")
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    type=FILE,
    help="What you kept: an earlier export or a checkpoint. The log must extend it: finds a cut-off end and a fork.",
)
@output_option
def verify(log: Path, root: Path, checkpoints: tuple[Path, ...], output: Form) -> None:
    """Verify an exported LOG offline: every entry, every checkpoint. Exit code 0, or 6 if it does not hold."""
    from secureproto.audit.offline import inspect_file, summary  # pydantic: `--help` stays light

    trust, report = inspect_file(log, root, checkpoints)
    if output == "table":
        emit(summary(trust, report), output)
        emit([{"action": action, "entries": count} for action, count in report.actions.items()], output)
    else:
        emit(summary(trust, report) | {"actions": report.actions, "refusals": report.refusals}, output)
    if not checkpoints:
        say("no --checkpoint was given: that the end is not cut off is the exporter's word")
