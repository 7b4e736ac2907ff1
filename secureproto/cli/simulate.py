"""`secureproto simulate`: the method against its peers, on data at hand; nothing leaves this machine.

Thin: options become a `Request`, `simulation` does the rest.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from secureproto.cli.output import Form, emit, emit_blocks, output_option, say

if TYPE_CHECKING:
    from secureproto.simulation.command import Found

Rule = Literal["last", "validation"]
F = TypeVar("F", bound=Callable[..., Any])
DIRECTORY = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
SHARE = click.FloatRange(0, 1, max_open=True)
SOME = click.FloatRange(0, 1, min_open=True, max_open=True)
AT_LEAST_1 = click.IntRange(1)
MAX_EPSILON = 10_000  # as a study's
ROUNDS = click.IntRange(1, 1_000_000)  # as rounds.total of a study


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


DATA = _options(
    click.option(
        "--data",
        "data",
        multiple=True,
        help="A built-in set (see `simulate list`; by default that of the study's name), or a CSV file, npz file or "
        "image folder; several: a site each.",
    ),
    click.option("--data-root", type=DIRECTORY, help="Where torchvision's files lie (cifar10, cifar100, emnist, …)."),
    click.option("--site-column", help="CSV: the column that says whose record it is, for the natural partition."),
    click.option("--delimiter", default=",", show_default=True, help="CSV: between columns."),
    click.option("--split-column", help="CSV: the column that says train or test; npz: the array that does."),
)
DIVISION = _options(
    click.option(
        "--partition",
        default="natural",
        show_default=True,
        help="natural, iid, dirichlet:ALPHA, pathological:K, fedpac:S:K, feature-shift, quantity:ALPHA, or a file.",
    ),
    click.option(
        "--sites", type=click.IntRange(1, 100_000), help="Number of sites, where the partition does not say it."
    ),
    click.option(
        "--per-site",
        type=click.IntRange(1, 10**9),
        help="Training records of a site; all that there are by default (of fedpac: 600).",
    ),
    click.option(
        "--split",
        type=click.Choice(["given", "stratified"]),
        help="The test part: the data's own, or drawn at each site by class. Default: given where there is one.",
    ),
    click.option("--test-share", type=SOME, default=0.3, show_default=True, help="Of a stratified split."),
    click.option(
        "--repeated",
        is_flag=True,
        help="Another stratified split of the same sites for each seed (the seeds of --out are settled).",
    ),
    click.option(
        "--validation", type=SHARE, default=0.0, show_default=True, help="Share of the training records to choose by."
    ),
    click.option(
        "--partition-seed", type=click.IntRange(0), default=0, show_default=True, help="Draws the partition."
    ),
)
RUNS = _options(
    click.option("--rounds", type=ROUNDS, help="In place of the study's rounds.total."),
    click.option("--seeds", type=click.IntRange(1, 100_000), default=3, show_default=True, help="Number of seeds."),
    click.option(
        "--first-seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="The first of them."
    ),
    click.option("--evaluate-every", type=ROUNDS, default=1, show_default=True, help="Rounds between scores."),
    click.option(
        "--choice/--no-choice",
        default=True,
        show_default=True,
        help="Each site of protoaligned chooses what it uses after the last round: some fifty local trainings more.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["inprocess", "ray"]),
        default="inprocess",
        show_default=True,
        help="Where sites are trained. The numbers are the same.",
    ),
    click.option("--address", help="Ray: a running cluster; without it one is started on this machine."),
    click.option("--workers", type=AT_LEAST_1, help="Ray: processes; one a core by default."),
    click.option("--allow-factory", "factories", multiple=True, help="package.module:factory that may run here."),
)
REPORTING = _options(
    click.option("--target", type=click.FloatRange(0, 1), help="Accuracy as received: tell the rounds that it took."),
    click.option(
        "--report",
        "rule",
        type=click.Choice(["last", "validation"]),
        default="last",
        show_default=True,
        help="Which version is reported: the last, or the best on validation records.",
    ),
    click.option("--reference", default="local", show_default=True, help="The method the others are compared with."),
)


@click.command()
@click.argument("study", type=FILE)
@DATA
@DIVISION
@click.option(
    "--methods",
    "methods",
    multiple=True,
    default=("protoaligned",),
    show_default=True,
    help="Names with commas between, each with its own settings: fedprox:mu=0.1 (see `simulate list`).",
)
@click.option(
    "--without-baselines",
    is_flag=True,
    help="Leave out majority and local, which every table should have, and fedavg unless it is named.",
)
@RUNS
@REPORTING
@click.option("--models/--no-models", default=True, show_default=True, help="Write the last models to --out.")
@click.option("--out", type=DIRECTORY, help="Keep everything here, and go on from here. Without it only the table.")
@output_option
def run(output: Form, rule: Rule, target: float | None, reference: str, **options: Any) -> None:
    """Run methods × seeds over STUDY on one partition of the data, and compare them.

    Interrupted, it goes on from the last whole round when the same command is given again.
    """
    from secureproto.simulation.command import Reporting, Request, perform  # torch: `--help` stays light

    request = Request.model_validate(options)
    try:
        found = perform(request, Reporting(rule=rule, target=target, reference=reference), say)
    except KeyboardInterrupt:
        if request.out is not None:
            say(f"{request.out}: keeps the rounds that are done; the same command goes on from there")
        raise
    _show(found, output)
    found.check()


@click.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@REPORTING
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the HTML page here.")
@output_option
def compare(directories: tuple[Path, ...], out: Path | None, rule: Rule, target: float | None, reference: str,
            output: Form) -> None:  # fmt: skip
    """Compare the experiments in DIRECTORIES: table, and one HTML page that needs no network.

    Methods are compared within a partition only; several partitions stand side by side.
    """
    from secureproto.simulation.command import Reporting, compare_directories

    _show(
        compare_directories(directories, Reporting(rule=rule, target=target, reference=reference), out, say), output
    )


def _show(found: "Found", output: Form) -> None:
    """Tables for a person, one document, or a line for each method, point and measure."""
    if output == "table":
        emit_blocks(found.blocks())
    else:
        emit(found.as_json() if output == "json" else found.rows(), output)


@click.command(name="list")
@output_option
def list_(output: Form) -> None:
    """List methods, data sets and partitions, with what each takes."""
    from secureproto.simulation.listing import listing

    emit(listing(), output)


@click.command()
@click.argument("data")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def example(data: str, target: Path) -> None:
    """Write a study file for the built-in data set DATA to TARGET."""
    from secureproto.simulation.listing import write_example_study

    write_example_study(data, target)
    say(f"{target}: a study for {data}")


@click.command()
@click.argument("study", type=FILE)
@DATA
@DIVISION
@click.option("--methods", "methods", multiple=True, default=("protoaligned",), show_default=True,
              help="Names with commas between; each is tried with all values of its grid.")  # fmt: skip
@click.option("--grid", multiple=True, help="More values to try, for every method: learning_rate=0.01,0.05")
@click.option("--by", type=click.Choice(["accuracy", "balanced_accuracy", "auc"]), default="accuracy",
              show_default=True, help="The measure that decides.")  # fmt: skip
@RUNS
@click.option("--out", type=DIRECTORY, required=True, help="Keep the runs here, and go on from here.")
@output_option
def tune(output: Form, **options: Any) -> None:
    """Choose each method's hyper-parameters by validation records, by the same procedure for all.

    Prints what to give to `simulate run --methods`.
    """
    from secureproto.simulation.tuning import TuningRequest, demand_choice
    from secureproto.simulation.tuning import tune as perform

    rows = perform(TuningRequest.model_validate(options), say)
    emit(rows, output)
    demand_choice(rows)


@click.command(name="privacy-curve")
@click.argument("study", type=FILE)
@click.option("--epsilons", default="0.5,1,2,5,8", show_default=True, help="The budgets of all rounds together.")
@DATA
@DIVISION
@RUNS
@click.option("--out", type=DIRECTORY, required=True, help="Keep the runs and the page here, and go on from here.")
@output_option
def privacy_curve(output: Form, epsilons: str, **options: Any) -> None:
    """Plot accuracy against epsilon: what STUDY's method is worth under each budget.

    Beside it: without privacy, own data only, the majority class.
    """
    from secureproto.simulation.privacy_curve import CurveRequest
    from secureproto.simulation.privacy_curve import privacy_curve as perform

    found, rows = perform(CurveRequest.model_validate({**options, "epsilons": _budgets(epsilons)}), say)
    emit(rows, output)
    found.check()


def _budgets(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < epsilon <= MAX_EPSILON for epsilon in found):
        raise click.BadParameter(
            f"{text!r} is not a list of numbers over 0 and up to {MAX_EPSILON:,}", param_hint="--epsilons"
        )
    return found
