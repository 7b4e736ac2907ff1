"""`client status`."""

import click

from secureproto.cli.output import Form, emit, output_option
from secureproto_client.cli.options import site_argument
from secureproto_client.paths import SitePaths


@click.command()
@site_argument
@output_option
def status(paths: SitePaths, output: Form) -> None:
    """Show who this site is, how far it is, and how good its models are on its own held-out records."""
    from secureproto_client.status import flat
    from secureproto_client.status import status as read

    found = read(paths)
    emit(found if output != "table" else flat(found), output)
