"""Options that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from secureproto.errors import Conflict
from secureproto_server.desk import Desk

F = TypeVar("F", bound=Callable[..., object])


def desk_options(function: F) -> F:
    """Adds `--operator DIR` and `--credentials DIR`."""
    credentials = click.option(
        "--credentials",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="CREDENTIALS_DIRECTORY",
        help="Directory with the file `operator`: the key's passphrase. Default: as operator.toml says.",
    )
    operator = click.option(
        "--operator",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        envvar="SECUREPROTO_OPERATOR",
        required=True,
        show_envvar=True,
        help="The operator's directory, as made by `federation init`.",
    )
    return operator(credentials(function))


def dry_run_option(function: F) -> F:
    """Adds `--dry-run`."""
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(function)


def reason_option(function: F) -> F:
    """Adds `--reason TEXT`, which must be given."""
    return click.option("--reason", required=True, help="Why: it stands in the audit log.")(function)


def confirm_option(function: F) -> F:
    """Adds `--confirm NAME`: the name again, so that nothing is destroyed by a slip."""
    return click.option("--confirm", required=True, metavar="NAME", help="The name, once more.")(function)


def require_confirmed(name: str, confirm: str) -> None:
    """Refuse when the two names differ. Raises Conflict."""
    if name != confirm:
        raise Conflict(f"--confirm says {confirm!r}, not {name!r}", hint="repeat the name to confirm")


def open_desk(operator: Path, credentials: Path | None) -> Desk:
    """The operator's desk. Raises Misconfigured."""
    return Desk(operator, credentials=credentials)
