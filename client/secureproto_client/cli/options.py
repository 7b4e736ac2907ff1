"""Options that the site's verbs share."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from secureproto_client.paths import SitePaths

VARIABLE = "SECUREPROTO_SITE"


def site_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--site-dir DIR`; the command gets `paths`."""

    @click.option(
        "--site-dir",
        type=click.Path(path_type=Path, file_okay=False),
        envvar=VARIABLE,
        default=".",
        show_default="the current directory",
        help=f"The site's directory; or set {VARIABLE}.",
    )
    @wraps(function)
    def command(site_dir: Path, **values: Any) -> Any:
        return function(paths=SitePaths(site_dir), **values)

    return command


def site_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `[DIR]` and `--site-dir DIR`, which mean the same; the command gets `paths`."""

    @click.argument("directory", type=click.Path(path_type=Path, file_okay=False), required=False)
    @site_option
    @wraps(function)
    def command(directory: Path | None, paths: SitePaths, **values: Any) -> Any:
        return function(paths=SitePaths(directory) if directory else paths, **values)

    return command


study_option = click.option("--study", default=None, help="Which study, where the site has several.")
