"""What the demo prints: a table, one sentence, a transcript, and where everything lies. Or the same as JSON."""

import sys
from pathlib import Path
from shutil import which
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table

from secureproto.simulation.heart.hospitals import HOSPITALS
from secureproto_client.demo.comparison import MEASURES, METHODS, Comparison
from secureproto_client.demo.play import Played

UNPROTECTED = (
    "This run is UNPROTECTED: there is no differential privacy in this version. The server process saw each site's "
    "update, class sums and class counts in the clear (never on its disk)."
)

WIDTH = 80  # of a terminal as it opens; also in a wide one a sentence of 80 reads best


def as_json(played: Played) -> dict[str, Any]:
    """Everything as plain values."""
    comparison = played.comparison
    return {
        "sites": {site: {method: dict(by[method]) for method in METHODS} for site, by in comparison.scores.items()},
        "test_rows": dict(comparison.rows),
        "accuracies": {method: comparison.mean(method, "accuracy") for method in METHODS},
        "verdict": comparison.verdict(),
        "rounds_completed": played.rounds_completed,
        "uploads": played.uploads,
        "refusals": played.refusals,
        "attempts": [{"what": a.what, "reason": str(a.reason), "answer": a.answer} for a in played.attempts],
        "receipts": played.receipts,
        "protection": ", ".join(sorted(played.receipts)),
        "audit": played.audit,
        "predicted": played.predicted,
        "out": str(played.places.out),
        "seconds": round(played.seconds, 1),
    }


def show(played: Played) -> None:
    """Print everything for a person, to stdout."""
    # the same in a pipe and in a terminal; only paths, which a person copies, are never folded
    console = Console(file=sys.stdout, highlight=False, width=WIDTH)
    console.print()
    console.print(table(played.comparison))
    paths = where(played)
    for line in ("", played.comparison.verdict(), "", *transcript(played), "", *paths):
        console.print(line if line in paths else folded(line), markup=False, soft_wrap=True)


def folded(line: str) -> str:
    """A sentence in lines of the width; what was set in stays set in."""
    margin = " " * (2 * (len(line) - len(line.lstrip(" "))))
    return fill(line, WIDTH, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)


def table(comparison: Comparison) -> Table:
    """Hospital by hospital, the five ways to get a model, each with its scores on the held-out rows."""
    shown = Table(title="On each hospital's held-out patients", title_justify="left", box=None, title_style="bold",
                  pad_edge=False, collapse_padding=True)  # fmt: skip
    for column in ("hospital", "model", *(measure.replace("_", "\n") for measure in MEASURES)):
        shown.add_column(column, justify="left" if column in ("hospital", "model") else "right", no_wrap=True)
    for site, by_method in comparison.scores.items():
        for method in METHODS:
            label = f"{site} (n={comparison.rows[site]})" if method == METHODS[0] else ""
            shown.add_row(label, method, *(_number(by_method[method][measure]) for measure in MEASURES))
    for method in METHODS:
        label = "mean of hospitals" if method == METHODS[0] else ""
        shown.add_row(
            label, method, *(_number(comparison.mean(method, measure)) for measure in MEASURES), style="bold"
        )
    return shown


def transcript(played: Played) -> list[str]:
    """What was enforced, as the running server answered."""
    return [
        "What was tried against the running server, and its answers:",
        *(f"  {a.what}: refused, {a.reason} ({a.answer})" for a in played.attempts),
        "The audit log, exported and verified offline:",
        f"  {played.audit['size']} entries, every one holds; root {played.audit['root']}",
        "The server's metrics:",
        (
            f"  rounds completed {played.rounds_completed}; uploads {_counts(played.uploads)}; "
            f"refusals {_counts(played.refusals)}"
        ),
        "",
        UNPROTECTED,
        f"The receipts that the sites hold say so: {_counts(played.receipts)}.",
    ]


def where(played: Played) -> list[str]:
    """Where everything lies, and three commands to look further."""
    out, first, secureproto = played.places.out, next(iter(HOSPITALS)), program()
    site = played.places.site(first)
    return [
        f"Everything lies in {out} ({played.seconds:.0f} s):",
        f"  {played.places.server}/state   the server's database and sealed blobs",
        f"  {out}/sites/<hospital>   keys, state/models, predictions.csv of each hospital",
        f"  {played.places.logs}   one log a process",
        "To look further:",
        f"  {secureproto} audit verify {played.places.audit_log} --root {played.places.operator}/root.json",
        f"  {secureproto} client model list {site}",
        f"  {secureproto} client predict {site} --input {site}/patients.csv",
    ]


def program() -> str:
    """What to type for this program: its name, or its path where a shell would not find it by that name."""
    here, found = Path(sys.executable).with_name("secureproto"), which("secureproto")
    if not here.exists() or (found is not None and Path(found).resolve() == here.resolve()):
        return "secureproto"
    return str(here)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
