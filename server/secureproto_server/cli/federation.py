"""`secureproto federation`: found one, show one."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option, say
from secureproto.clock import SystemClock, utc_text
from secureproto_server import founding
from secureproto_server.cli.options import desk_options, dry_run_option, open_desk


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", required=True, help="The federation's name: lower case, digits, dashes.")
@click.option("--server-name", required=True, help="DNS name by which sites reach the server.")
@click.option("--address", multiple=True, help="An address or further name of the server. May be repeated.")
@click.option("--operator", required=True, help="Your name, as it will stand in the audit log.")
@click.option("--organisation", required=True, help="Who you sign for.")
@click.option(
    "--credentials",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="CREDENTIALS_DIRECTORY",
    required=True,
    help="Directory of passphrases (files ca, server, operator); missing ones are made.",
)
@dry_run_option
@output_option
def init(directory: Path, name: str, server_name: str, address: tuple[str, ...], operator: str, organisation: str,
         credentials: Path, dry_run: bool, output: Form) -> None:  # fmt: skip
    """Found a federation: keys, certificates, root document, settings."""
    charter = founding.Charter(name, (server_name, *address), operator, organisation)
    founding.check(charter)
    if dry_run:
        emit([{"would_make": path} for path in founding.plan(directory)], output)
        return
    founded = founding.found(directory, charter, credentials, SystemClock())
    for secret in founded.new_secrets:
        say(f"made a passphrase: {credentials / secret} (mode 0600)")
    say(f"lock away: {directory / 'ca'} and the passphrase {credentials / 'ca'}; the server never needs them")
    emit({"federation": name, "root_digest": founded.root_digest, "directory": str(directory)}, output)


@click.command()
@desk_options
@output_option
def show(operator: Path, credentials: Path | None, output: Form) -> None:
    """Show the root document in force: people, server keys, roster."""
    root = open_desk(operator, credentials).refresh_root()
    record = {
        "federation": root.federation,
        "version": root.version,
        "digest": root.digest(),
        "expires": utc_text(root.expires),
        "threshold": root.threshold,
        "people": [f"{person.name} ({person.role}, {person.organisation})" for person in root.people],
        "sites": [entry.site for entry in root.sites],
    }
    emit(record, output)
