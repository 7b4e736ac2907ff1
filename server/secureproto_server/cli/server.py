"""`secureproto server`: run it, ask how it is."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option, say
from secureproto.clock import SystemClock
from secureproto_server import watching
from secureproto_server.cli.options import desk_options, open_desk


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="The settings file itself.")
@click.option(
    "--accept-clock-forward",
    is_flag=True,
    help="I have checked the clock: go on although it is more than ten minutes ahead of the last run.",
)
def run(directory: Path | None, config: Path | None, accept_clock_forward: bool) -> None:
    """Run the server of DIRECTORY (as made by `federation init`) until it is told to stop."""
    from secureproto_server import logs
    from secureproto_server.app import run as serve
    from secureproto_server.settings import load

    settings = load(config or directory or Path())
    logs.configure(settings.log_level)
    serve(settings, SystemClock(), accept_forward=accept_clock_forward, say=say)


@click.command()
@click.option("--wait", is_flag=True, help="Until it answers: after starting it.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait.")
@desk_options
@output_option
def status(wait: bool, timeout: float, operator: Path, credentials: Path | None, output: Form) -> None:
    """Ask the running server how it is."""
    answer = watching.status(open_desk(operator, credentials), timeout=timeout if wait else 0.0)
    emit(watching.shown(answer), output)
