"""`secureproto budget`: what privacy costs, before anyone signs."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from secureproto.cli.output import Form, emit, emit_blocks, output_option
from secureproto.errors import BudgetExhausted, Misconfigured

if TYPE_CHECKING:
    from secureproto.governance.plan import Part, Plan
    from secureproto.privacy.accounting.quote import Quote
    from secureproto.study.privacy import PrivacySection

NEEDED = ("epsilon", "delta", "rounds", "sample_rate", "steps")
OPTIONAL = ("release_every", "share_prototypes", "metrics_every")


class Real(click.FloatRange):
    """A number within bounds; NaN lies in no bounds, though it compares as if it did."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As click converts. Raises click.BadParameter."""
        found = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"{found} is not a finite number.", param, ctx)
        return found


ROUNDS = click.IntRange(1, 1_000_000)
SHARE = Real(0, 1, min_open=True, max_open=True)


@click.command()
@click.option("--epsilon", type=Real(0, 1e4, min_open=True), help="The most that the whole plan may cost.")
@click.option("--delta", type=SHARE, help="At this delta; under 0.1 / number of records.")
@click.option("--rounds", type=ROUNDS, help="Rounds of the plan.")
@click.option("--sample-rate", type=Real(1e-9, 1), help="Chance of a record to be in a step.")
@click.option("--steps", type=ROUNDS, help="Steps of a round.")
@click.option("--release-every", type=ROUNDS, help="Rounds from one release of prototypes to the next; 5 by default.")
@click.option("--share-prototypes", type=SHARE, help="Of the budget (of μ²), for prototypes; 0.2 by default.")
@click.option(
    "--metrics-every", type=ROUNDS, help="Release noised (correct, total) counts (std 10) every so many rounds."
)
@click.option(
    "--records", type=click.IntRange(1, 10**12), help="Number of records, a public estimate: to judge delta."
)
@click.option("--study", type=click.Path(dir_okay=False, exists=True, path_type=Path),
              help="Judge the [privacy] section of this study file instead.")  # fmt: skip
@output_option
def plan(output: Form, study: Path | None, records: int | None, **options: Any) -> None:
    """Find the noise with which a plan keeps its budget, and what each part of it costs.

    With --study the noise is that of the study file, and the plan is judged.
    """
    if study is None:
        _show(_calibrated(options, records), output)
        return
    if given := [name for name, value in options.items() if value is not None]:
        raise click.UsageError(f"--study says it all: leave out --{given[0].replace('_', '-')}")
    section, rounds = _section(study)
    from secureproto.governance.plan import plan_of  # dp-accounting: `--help` stays light

    found = plan_of(section, rounds, records=records)
    _show(found, output)
    _demand_that_it_fits(found, section, rounds)


def _calibrated(options: dict[str, Any], records: int | None) -> "Plan":
    missing = ["--" + name.replace("_", "-") for name in NEEDED if options[name] is None]
    if missing:
        raise click.UsageError(f"missing {', '.join(missing)}, or --study")
    from secureproto.governance.plan import Wish, calibrate

    chosen = {name: value for name, value in options.items() if name in NEEDED + OPTIONAL and value is not None}
    return calibrate(Wish(**chosen), records=records)


def _section(study: Path) -> tuple["PrivacySection", int]:
    from secureproto.study.file import load

    found = load(study)
    if found.privacy is None:
        raise Misconfigured(
            f"{study}: no [privacy] section: what it releases is unprotected, its epsilon infinite",
            hint="keys: secureproto/study/SPEC.md",
        )
    return found.privacy, found.rounds.total


def _demand_that_it_fits(found: "Plan", section: "PrivacySection", rounds: int) -> None:
    if found.total.filter_epsilon <= found.gate.max_epsilon:
        return
    from secureproto.governance.forecast import remaining_rounds

    fitting = remaining_rounds(section, found.gate, spent=(), next_round=0)
    raise BudgetExhausted(
        f"{rounds} rounds cost more than max_epsilon_study {section.max_epsilon_study:g}: {fitting} of them fit",
        reasons=("max_epsilon_study",),
        hint="`secureproto budget plan --epsilon … --rounds …` finds the noise for all of them",
    )


class _Cell(NamedTuple):
    text: str
    best: bool = False


class _Block(NamedTuple):
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[_Cell, ...], ...]
    notes: tuple[str, ...]


def _show(found: "Plan", output: Form) -> None:
    total = found.total
    if output == "table":
        emit_blocks([_block(found)])
        if total.delta_too_large:
            click.secho(f"δ is over 0.1/n: n·δ = {total.n_delta:.3g}; choose a smaller delta", fg="red")
        return
    rows = [_row(part) for part in found.parts]
    if output == "json":
        emit({"parts": rows, "max_epsilon": found.gate.max_epsilon, "total": total.as_json()}, output)
    else:
        emit([*rows, {"part": "total", **total.as_json()}], output)


def _row(part: "Part") -> dict[str, object]:
    return {
        "part": part.name,
        "noise_multiplier": part.noise_multiplier,
        "releases": part.releases,
        "share": part.share,
        **part.alone.as_json(),
    }


def _block(found: "Plan") -> _Block:
    total = found.total
    columns = ("part", "noise multiplier", "releases", "share", "ε", "ε by RDP", "ε of the gate")
    lines = [
        (part.name, "none" if part.noise_multiplier is None else f"{part.noise_multiplier:.4f}", str(part.releases),
         f"{part.share:.1%}", *_figures(part.alone))
        for part in found.parts
    ]  # fmt: skip
    lines.append(("total", "", "", "", *_figures(total)))
    notes = (
        f"δ {total.delta:g}, {total.adjacency} of one {total.unit}, {total.sampling} sampling, {total.accountant}",
        f"ε of the total: {total.method}",
        f"gate: RDP at order {total.filter_order:g}, at most ε {found.gate.max_epsilon:g}",
        total.words,
        *(() if total.n_delta is None else (f"n·δ = {total.n_delta:.3g}",)),
    )
    rows = tuple(tuple(_Cell(text, line[0] == "total") for text in line) for line in lines)
    return _Block("", columns, rows, notes)


def _figures(cost: "Quote") -> tuple[str, str, str]:
    return f"{cost.epsilon:.4f}", f"{cost.rdp_epsilon:.4f}", f"{cost.filter_epsilon:.4f}"
