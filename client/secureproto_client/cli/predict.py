"""`client predict`."""

from pathlib import Path

import click

from secureproto.cli.output import say
from secureproto_client.cli.options import site_argument, study_option
from secureproto_client.paths import SitePaths


@click.command()
@click.option("--input", "records", type=click.Path(path_type=Path), required=True, help="CSV, image, or folder.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["csv", "json"]),
    default="csv",
    show_default=True,
    help="Form of what goes to stdout.",
)
@click.option("--model", default=None, help="Another model than the one in use, as in `client model list`.")
@study_option
@site_argument
def predict(paths: SitePaths, records: Path, output: str, model: str | None, study: str | None) -> None:
    """Classify new records: class and probabilities on stdout, ids carried through. Works without the server."""
    from secureproto_client import predict as predicting

    found = predicting.predict(paths, records, study=study, model=model)
    for line in found.left_out:
        say(f"no prediction: {line}")
    say(f"{len(found.names)} classified with {found.study} model {found.model}, {found.left_out_count} left out")
    click.echo(predicting.write(found, output), nl=False)
