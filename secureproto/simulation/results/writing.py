"""Files of results: every score as CSV, what was made of them as CSV and as JSON.

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
from secureproto.simulation.history import CHOSEN, TEST, VALIDATION, History
from secureproto.simulation.results.parts import Part
from secureproto.simulation.results.reported import POINTS, scored
from secureproto.simulation.results.rows import rows
from secureproto.simulation.results.summary import Summary
from secureproto.simulation.statistics import MEASURES

ROUNDS_FILE = "rounds.csv"
SCORES = ("method", "seed", "round", "site", "point", "part", *MEASURES, "n", "chose")
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


def write_summary(path: Path, parts: Sequence[Part]) -> None:
    """Write `rows` of the parts as CSV. Raises as `write_csv`."""
    found = rows(parts)
    with _replacing(path) as file:
        writer = csv.DictWriter(file, list(found[0]) if found else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


def write_json(path: Path, summary: Summary, extra: Mapping[str, object] | None = None) -> None:
    """Write the summary, and `extra` beside it, as one JSON object with sorted keys. Raises as `write_csv`."""
    content = {**(extra or {}), **asdict(summary)}
    with _replacing(path) as file:
        json.dump(content, file, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False, default=str)
        file.write("\n")


def _scores(history: History) -> Iterator[tuple[object, ...]]:
    for record in history.rounds:
        for point in POINTS:
            for part in (TEST, VALIDATION):
                for site, at in scored(record, point, part).items():
                    key = (history.method, history.seed, record.number, site, point, part)
                    chose = record.sites[site].chosen if point == CHOSEN else None
                    yield (*key, at.accuracy, at.balanced_accuracy, at.auc, at.n, chose)


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
