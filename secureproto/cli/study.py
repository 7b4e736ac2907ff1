"""`secureproto study example`: the part of the noun that needs no server."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@output_option
def example(directory: Path, output: Form) -> None:
    """Write a study file and the data of four hospitals to DIRECTORY, to try things with."""
    from secureproto.simulation.heart.hospitals import write_example  # the wheel's data: `--help` stays light

    emit([{"file": str(path)} for path in write_example(directory)], output)
