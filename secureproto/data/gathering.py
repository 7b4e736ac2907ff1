"""Collecting the records of a load one by one: the sides, what was isolated, and where.

Invariants: the order of the records is the source's; a note names a place, never a value; the number of notes is
bounded whatever the data are.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from secureproto.data.holdout import Side
from secureproto.data.source import Isolated, Loaded, check_loaded
from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.study.features import BadRecord, MissingValue, record_shape
from secureproto.study.schema import StudyFile

MAX_NOTES = 20  # enough to see the pattern; a broken export has as many bad rows as rows


class Marked(NamedTuple):
    """A load, and a text beside each of its records, in their order. Where nothing was asked for, all are empty."""

    loaded: Loaded
    train: tuple[str, ...]
    test: tuple[str, ...]


class Isolation:
    """Counts the records that take no part, and stops at a bad one where the study says so."""

    def __init__(self, study: StudyFile, name: str) -> None:
        self._stop = study.data.bad_record == "stop"
        self._name = name
        self.counts: Counter[Isolated] = Counter()
        self.notes: list[str] = []

    def isolate(self, where: str, error: BadRecord) -> None:
        """Take note of a record at a place.

        Raises:
            Misconfigured: it cannot be read, and the study stops at that.
        """
        reason = Isolated.MISSING if isinstance(error, MissingValue) else Isolated.BAD
        line = f"{where}: {error.message}"
        if reason is Isolated.BAD and self._stop:
            raise Misconfigured(
                f"{self._name}: {line}",
                hint='correct it at the source (the study says data.bad_record = "stop")',
            ) from None
        self.counts[reason] += 1
        if len(self.notes) < MAX_NOTES:
            self.notes.append(line)


class Gathering:
    """The records of one load, in order."""

    def __init__(self, study: StudyFile, name: str) -> None:
        self._study = study
        self._name = name
        self._x: dict[Side, list[NDArray[np.float32]]] = {side: [] for side in Side}
        self._y: dict[Side, list[int]] = {side: [] for side in Side}
        self._marks: dict[Side, list[str]] = {side: [] for side in Side}
        self._train_ids: list[str] = []
        self._clamped: Counter[str] = Counter()
        self.isolation = Isolation(study, name)

    def add(self, x: NDArray[np.float32], y: int, side: Side, *, mark: str = "", record_id: str = "") -> None:
        """Take a record in, with the text that is asked for beside it, and its id where it has one."""
        self._x[side].append(x)
        self._y[side].append(y)
        self._marks[side].append(mark)
        if side is Side.TRAIN:
            self._train_ids.append(record_id)

    def leave_out(self) -> None:
        """Count a record that the data's own split puts on neither side."""
        self.isolation.counts[Isolated.NO_SPLIT] += 1

    def clamped(self, features: tuple[str, ...]) -> None:
        """Count the features of a record whose value lay outside the public range."""
        self._clamped.update(features)

    def loaded(self) -> Loaded:
        """What was gathered. Raises Misconfigured as `check_loaded` does."""
        loaded = Loaded(
            self._records(Side.TRAIN),
            self._records(Side.TEST),
            dict(self.isolation.counts),
            tuple(self.isolation.notes),
            dict(self._clamped),
            tuple(self._train_ids) if any(self._train_ids) else None,
        )
        return check_loaded(loaded, self._study, self._name)

    def marked(self) -> Marked:
        """What was gathered, with its marks. Raises as `loaded`."""
        return Marked(self.loaded(), tuple(self._marks[Side.TRAIN]), tuple(self._marks[Side.TEST]))

    def _records(self, side: Side) -> Records:
        rows = self._x[side]
        x = np.stack(rows) if rows else np.empty((0, *record_shape(self._study)), np.float32)
        return Records(x, np.array(self._y[side], dtype=np.int64))
