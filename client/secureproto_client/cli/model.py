"""`client model list|use|rollback|export`."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option, say
from secureproto_client.cli.options import site_argument, site_option, study_option
from secureproto_client.paths import SitePaths


@click.command("list")
@study_option
@site_argument
@output_option
def list_(paths: SitePaths, study: str | None, output: Form) -> None:
    """List the models here: each version as received, and what was made of it here (`-local`, `-own`, …)."""
    from secureproto_client.status import model_rows

    emit(model_rows(paths, study), output)


@click.command()
@click.argument("name")
@study_option
@site_option
def use(paths: SitePaths, name: str, study: str | None) -> None:
    """Use a model, and hold it when new versions come. `latest` lets go again: the site's own choice is in use."""
    from secureproto_client.choosing import follow, pointer_of

    if name == "latest":
        name = follow(paths, study)
    else:
        pointer_of(paths, study).use(name)
    say(f"in use: {name}")


@click.command()
@study_option
@site_argument
def rollback(paths: SitePaths, study: str | None) -> None:
    """Go back to the model that was in use before, and hold it."""
    from secureproto_client.choosing import pointer_of

    say(f"in use: {pointer_of(paths, study).roll_back()}")


@click.command()
@click.argument("name")
@click.option("--out", "target", type=click.Path(path_type=Path), required=True, help="The file to make.")
@study_option
@site_option
def export(paths: SitePaths, name: str, target: Path, study: str | None) -> None:
    """Write a model as safetensors. One made here is private: it may tell of this site's records."""
    from secureproto_client.choosing import export_model

    private = export_model(paths, name, target, study=study)
    say(f"{target} written" + (": PRIVATE, trained on this site's records alone" if private else ""))
