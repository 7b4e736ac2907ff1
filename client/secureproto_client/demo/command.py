"""`secureproto demo`."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option, say


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for everything the demo makes; new or empty. Default: demo-out/<time>.",
)
@output_option
def demo(out: Path | None, output: Form) -> None:
    """Four hospitals and a server on this machine, end to end, in about a minute."""
    from secureproto_client.demo import report  # torch: `--help` stays light
    from secureproto_client.demo.beginning import play

    played = play(out, say)
    if output == "table":
        report.show(played)
    else:
        emit(report.as_json(played), output)
