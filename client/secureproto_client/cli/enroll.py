"""`client enroll`."""

from pathlib import Path

import click

from secureproto.cli.output import say
from secureproto_client.cli.options import site_option
from secureproto_client.paths import SitePaths


@click.command()
@click.option("--invitation", type=click.Path(path_type=Path), required=True, help="The file the operator sent.")
@click.option("--credentials", type=click.Path(path_type=Path), help="Directory with the passphrase file `site`.")
@click.option("--wait", is_flag=True, help="Wait until the operator has decided.")
@site_option
def enroll(paths: SitePaths, invitation: Path, credentials: Path | None, wait: bool) -> None:
    """Enrol this site: make its keys here, show their fingerprint, ask to be admitted."""
    from secureproto_client import running

    running.enroll(paths, invitation, credentials=credentials, wait=wait, say=say)
