"""`client stop`."""

import click

from secureproto.cli.output import say
from secureproto_client.cli.options import site_argument
from secureproto_client.paths import SitePaths


@click.command()
@site_argument
def stop(paths: SitePaths) -> None:
    """Ask the running client of this site to end. Works without the server."""
    from secureproto_client import stopping

    say(f"asked process {stopping.stop(paths)} to end")
