"""Files and rows of results: every score as CSV, the summary as JSON, and rows for the terminal.

Invariants: a file is replaced as a whole or not at all; equal results give equal bytes; numbers in files are exact
(they read back as the same float), what is not defined is empty in CSV and null in JSON.
"""

import csv
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO

from secureproto.errors import Unavailable
from secureproto.simulation.history import TEST, VALIDATION, History
from secureproto.simulation.results.reported import POINTS, scored
from secureproto.simulation.results.summary import AtPoint, MethodSummary, Summary
from secureproto.simulation.statistics import MEASURES, Interval, Measure

ROUNDS_FILE = "rounds.csv"
SCORES = ("method", "seed", "round", "site", "point", "part", *MEASURES, "n")
ROUNDS = (
    "method", "seed", "round", "site",
    "steps", "cross_entropy", "alignment", "embedding_norm", "bytes_sent", "seconds",
)  # fmt: skip


def write_csv(path: Path, histories: Iterable[History]) -> None:
    """Write every score to `path` (columns SCORES) and every local training to `rounds.csv` beside it (ROUNDS).

    Histories are taken one by one. Raises Unavailable when the disk will not take it.
    """
    with _replacing(path) as scores, _replacing(path.with_name(ROUNDS_FILE)) as rounds:
        score_writer, round_writer = (csv.writer(file, lineterminator="\n") for file in (scores, rounds))
        score_writer.writerow(SCORES)
        round_writer.writerow(ROUNDS)
        for history in histories:
            score_writer.writerows(_scores(history))
            round_writer.writerows(_trainings(history))


def write_json(path: Path, summary: Summary, extra: Mapping[str, object] | None = None) -> None:
    """Write the summary, and `extra` beside it, as one JSON object with sorted keys. Raises as `write_csv`."""
    content = {**(extra or {}), **asdict(summary)}
    with _replacing(path) as file:
        json.dump(content, file, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False, default=str)
        file.write("\n")


def rows(summary: Summary, measures: Sequence[Measure] = MEASURES) -> list[dict[str, object]]:
    """One row a method, point and measure, as `secureproto.cli.output.emit` takes them; floats, texts and None.

    A method without a run that ended has one row that says so.
    """
    found: list[dict[str, object]] = []
    for method in summary.methods:
        points = [(point, method.points[point]) for point in POINTS if point in method.points]
        found += [_row(summary, method, point, at, measure) for point, at in points for measure in measures]
        if not points:
            found.append(_row(summary, method, "no run ended", None, None))
    return found


def _row(
    summary: Summary, method: MethodSummary, point: str, at: AtPoint | None, measure: Measure | None
) -> dict[str, object]:
    over = None if at is None or measure is None else at.measures.get(measure)
    gain = next(
        (c for c in summary.to_reference if (c.method, c.point, c.measure) == (method.label, point, measure)), None
    )
    row: dict[str, object] = {
        "method": method.label,
        "point": point,
        "measure": None if measure is None else measure.replace("_", " "),
        "mean": None if over is None else over.mean.mean,
        "± seeds": None if over is None else over.mean.deviation,
        "worst site": None if over is None else over.worst.mean,
        "spread": None if over is None else over.spread.mean,
        "pooled": at.pooled.mean if at is not None and measure == "accuracy" else None,
    }
    if summary.reference is not None:
        row[f"vs {summary.reference}"] = None if gain is None else interval_text(gain.overall)
    if summary.target is not None and method.target is not None:
        row[f"rounds to {summary.target:g}"] = method.target.rounds
    row["seeds"] = str(len(method.seeds))
    return row


def interval_text(interval: Interval, digits: int = 3) -> str:
    """+0.021 [+0.003, +0.039], or the mean alone where there is no interval."""
    mean = f"{interval.mean:+.{digits}f}"
    if interval.low is None or interval.high is None:
        return mean
    return f"{mean} [{interval.low:+.{digits}f}, {interval.high:+.{digits}f}]"


def _scores(history: History) -> Iterator[tuple[object, ...]]:
    for record in history.rounds:
        for point in POINTS:
            for part in (TEST, VALIDATION):
                for site, at in scored(record, point, part).items():
                    key = (history.method, history.seed, record.number, site, point, part)
                    yield (*key, at.accuracy, at.balanced_accuracy, at.auc, at.n)


def _trainings(history: History) -> Iterator[tuple[object, ...]]:
    for record in history.rounds:
        for site, at in sorted(record.sites.items()):
            key = (history.method, history.seed, record.number, site)
            yield (*key, at.steps, at.cross_entropy, at.alignment, at.embedding_norm, at.bytes_sent, at.seconds)


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with draft.open("x", encoding="utf-8", newline="") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}", hint="check the disk and the owner") from None
