"""`simulate benefit`: runs at the site, on the site's own records; nothing leaves."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secureproto.cli.output import Form, emit, output_option, say
from secureproto.regular import is_there
from secureproto_client.cli.options import VARIABLE, study_option
from secureproto_client.paths import SitePaths

if TYPE_CHECKING:
    from secureproto.simulation.statistics import Interval
    from secureproto_client.benefit import Benefit, Question

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("study_file", metavar="[STUDY.toml]", required=False, type=FILE)
@click.option("--model", type=FILE, help="With STUDY.toml: an exported model, as `model export` writes it.")
@click.option("--data", type=FILE, help="With STUDY.toml: a CSV file, or a TOML file with a [data] table.")
@click.option("--id-column", help="CSV: the column that decides by a hash which rows are held out.")
@click.option("--split-column", help="CSV: the column that says train or test.")
@click.option("--hold-out", type=click.FloatRange(0, 1, max_open=True), help="CSV: the share that is held out: 0.2.")
@click.option("--allow-factory", "factories", multiple=True, help="package.module:factory that may run here.")
@click.option("--site-dir", type=click.Path(path_type=Path, file_okay=False), envvar=VARIABLE,
              help=f"An enrolled site's directory; or set {VARIABLE}.")  # fmt: skip
@study_option
@output_option
def benefit(
    study_file: Path | None,
    model: Path | None,
    data: Path | None,
    id_column: str | None,
    split_column: str | None,
    hold_out: float | None,
    factories: tuple[str, ...],
    site_dir: Path | None,
    study: str | None,
    output: Form,
) -> None:
    """Would this site be better off alone? Own data only against a federation's model, on rows held out.

    An enrolled site gives --site-dir. A hospital that has not joined gives STUDY.toml, --model and --data.
    Nothing is sent and no connection is opened.
    """
    columns = {"id_column": id_column, "split_column": split_column, "hold_out": hold_out}
    given: dict[str, object] = {name: value for name, value in columns.items() if value is not None}
    if study_file is None:
        if model or data or given or factories:
            raise click.UsageError("--model, --data and the options of a CSV file go with STUDY.toml")
        question = _at_site(_site(site_dir), study)
    else:
        if study is not None:
            raise click.UsageError("--study is for an enrolled site: STUDY.toml is the study")
        question = _from_files(study_file, *_both(model, data), given, factories)
    from secureproto_client.benefit import answer  # torch: `--help` stays light

    _show(answer(question), output)


def _site(given: Path | None) -> SitePaths:
    """The directory that was given, or the current one, if it is a site's."""
    paths = SitePaths(given or Path())
    if given is None and not is_there(paths.site):
        raise click.UsageError(
            "nothing is given to compare. An enrolled site: --site-dir DIR. "
            "Before joining: STUDY.toml --model MODEL.safetensors --data RECORDS.csv"
        )
    return paths


def _both(model: Path | None, data: Path | None) -> tuple[Path, Path]:
    """Both files that go with STUDY.toml."""
    missing = []
    if model is None:
        missing.append("--model is missing: an exported model, as `model export` writes it")
    if data is None:
        missing.append("--data is missing: the site's records, a CSV file or a TOML file with a [data] table")
    if model is None or data is None:
        raise click.UsageError(f"beside STUDY.toml, {'; '.join(missing)}")
    return model, data


def _at_site(paths: SitePaths, study: str | None) -> "Question":
    from secureproto_client.benefit_sources import of_site

    return of_site(paths, study)


def _from_files(
    study: Path, model: Path, data: Path, columns: dict[str, object], factories: tuple[str, ...]
) -> "Question":
    from secureproto_client.benefit_sources import data_settings, of_files

    return of_files(study, model, data_settings(data, columns), factories, given=data)


def _show(found: "Benefit", output: Form) -> None:
    if output == "json":
        return emit(_whole(found), output)
    emit(list(_rows(found)), output)
    say(f"{found.own.told()}; {found.training} rows to train on")
    say(f"all models: scored on the same {found.held_out} held-out rows")
    for note in found.notes:
        say(f"note: {note}")
    return click.echo(f"\n{found.verdict}") if output == "table" else say(found.verdict)


def _whole(found: "Benefit") -> dict[str, object]:
    """Everything as plain values."""
    return {
        "study": found.study,
        "federation_model": found.model,
        "own_data_only": asdict(found.own),
        "training_rows": found.training,
        "held_out_rows": found.held_out,
        "models": [
            {
                "model": line.model,
                "scores": {measure: _plain(each) for measure, each in line.scores.items()},
                "against_own_data_only": {measure: _plain(each) for measure, each in line.gains.items()},
            }
            for line in found.lines
        ],
        "verdict": found.verdict,
        "notes": list(found.notes),
    }


def _plain(found: "Interval | None") -> dict[str, float | None] | None:
    return None if found is None else {"value": found.mean, "low": found.low, "high": found.high}


def _rows(found: "Benefit") -> Iterator[dict[str, object]]:
    """One model and measure a row."""
    for line in found.lines:
        for measure, scored in line.scores.items():
            gain = line.gains.get(measure)
            yield {
                "model": line.model,
                "measure": measure,
                "value": None if scored is None else scored.mean,
                "95 % interval": _interval(scored, ""),
                "against own data only": None if gain is None else f"{gain.mean:+.3f}",
                "its interval": _interval(gain, "+"),
            }


def _interval(found: "Interval | None", sign: str) -> str | None:
    if found is None or found.low is None or found.high is None:
        return None
    return f"{found.low:{sign}.3f} to {found.high:{sign}.3f}"
