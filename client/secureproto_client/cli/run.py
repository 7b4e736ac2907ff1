"""`client run`."""

import click

from secureproto.cli.output import Form, emit, output_option, say
from secureproto_client.cli.options import site_argument
from secureproto_client.paths import SitePaths


@click.command()
@click.option("--rehearse", is_flag=True, help="Do everything of a round but the upload, and say what it takes.")
@click.option("--once", is_flag=True, help="Answer what is new now, then end.")
@click.option("--until-complete", is_flag=True, help="End when every accepted study is over and trained on here.")
@site_argument
@output_option
def run(paths: SitePaths, rehearse: bool, once: bool, until_complete: bool, output: Form) -> None:
    """Take part: wait for rounds, train, send sealed updates, receive models. Ends in good order on SIGTERM."""
    from secureproto_client import running

    if rehearse + once + until_complete > 1:
        raise click.UsageError("--rehearse, --once and --until-complete exclude each other")
    if rehearse:
        return emit(running.rehearse_all(paths), output)
    running.run(paths, once=once, until_complete=until_complete)
    return say(f"where everything lies: {paths.state}")
