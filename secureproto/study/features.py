"""One record in, one vector out: the encoding that the study fixes and every site shares.

Invariants: the vector of a record depends on that record and the study alone, never on other records or on the
site; every entry lies in [-1, 1]; the width is the study's. A value that cannot be read raises `BadValue`, one
that is not there `MissingValue` where the feature's rule is `drop`; neither carries the value, so that nothing
of a record can reach a log.
"""

import re
from collections.abc import Mapping
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from secureproto.errors import Misconfigured
from secureproto.study.columns import CategoryFeature, NumberFeature
from secureproto.study.schema import StudyFile

# float() also takes "nan", "1_000", blanks and the digits of other scripts
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


class BadRecord(Misconfigured):
    """One record cannot be read. What it does to the load is the study's `data.bad_record`."""


class BadValue(BadRecord):
    """A value of one column cannot be read. `column` is the study's name of it; the value is not kept."""

    def __init__(self, column: str, what: str) -> None:
        super().__init__(f"column {column}: {what}")
        self.column = column


class MissingValue(BadValue):
    """A value is missing and the feature's rule is to drop the record."""

    def __init__(self, column: str) -> None:
        super().__init__(column, "missing")


def record_shape(study: StudyFile) -> tuple[int, ...]:
    """Shape of one encoded record: (width,), or (channels, height, width)."""
    if study.data.kind == "image":
        return (study.model.channels, study.model.height, study.model.width)
    return (FeatureSchema(study).width,)


class FeatureSchema:
    """The columns of a tabular study, in the order of the file.

    `names`: the columns of the data that are needed. `encoded`: what each entry of a vector stands for, such as
    "age", "cp=2", "chol missing".
    """

    def __init__(self, study: StudyFile) -> None:
        self._features = study.data.features
        self._missing = frozenset(study.data.missing_values)
        self.names = tuple(feature.name for feature in self._features)
        self.encoded = tuple(name for feature in self._features for name in _encoded_names(feature))
        self.width = len(self.encoded)

    def encode(self, record: Mapping[str, str]) -> NDArray[np.float32]:
        """(width,) float32 in [-1, 1] of one record (column → raw text; other columns are not looked at).

        Raises:
            MissingValue: a value is missing whose rule is `drop`, or its column is not in the record.
            BadValue: text in a number, or a category that the study does not have.
        """
        entries: list[float] = []
        for feature in self._features:
            raw = record.get(feature.name, "").strip()
            if raw in self._missing or feature.name not in record:
                entries += _encode_missing(feature)
            else:
                entries += _encode_value(feature, raw)
        return np.array(entries, dtype=np.float32)

    def outside_range(self, record: Mapping[str, str]) -> tuple[str, ...]:
        """The numbers of a readable record that were clamped to their range: many of them mean another unit."""
        numbers = [feature for feature in self._features if isinstance(feature, NumberFeature)]
        present = [(f, record.get(f.name, "").strip()) for f in numbers]
        return tuple(
            f.name for f, raw in present if raw not in self._missing and not f.min <= _number(f.name, raw) <= f.max
        )


class LabelSchema:
    """From the label as it stands in the data to the index of a class."""

    def __init__(self, study: StudyFile) -> None:
        self.column = study.data.label.column or "label"
        self._index = {name: index for index, name in enumerate(study.classes)}
        self._values = study.data.label.values
        self._missing = frozenset(study.data.missing_values)

    def index(self, raw: str) -> int:
        """Index of the class of a raw label.

        Raises:
            BadValue: no label, or one that the study does not have.
        """
        raw = raw.strip()
        name = self._values.get(raw) if self._values else raw
        if name is None or name not in self._index:
            if raw in self._missing:
                raise BadValue(self.column, "the label is missing")
            raise BadValue(self.column, f"unknown label; allowed: {_listed(self._values or self._index)}")
        return self._index[name]

    def index_of_integer(self, value: int) -> int:
        """Index of the class of an integer label: by `label.values` if the study has them, else the index itself.

        Raises:
            BadValue: a label that the study does not have.
        """
        if self._values:
            return self.index(str(value))
        if not 0 <= value < len(self._index):
            raise BadValue(self.column, f"unknown label; allowed: 0 to {len(self._index) - 1}")
        return value


def _encoded_names(feature: NumberFeature | CategoryFeature) -> list[str]:
    match feature:
        case NumberFeature():
            names = [feature.name]
        case CategoryFeature():
            names = [f"{feature.name}={value}" for value in feature.values]
    return [*names, f"{feature.name} missing"] if feature.missing == "indicator" else names


def _encode_missing(feature: NumberFeature | CategoryFeature) -> list[float]:
    if feature.missing == "drop":
        raise MissingValue(feature.name)
    if feature.missing == "indicator":
        return [0.0] * (feature.width - 1) + [1.0]
    return _encode_value(feature, str(feature.fill))


def _encode_value(feature: NumberFeature | CategoryFeature, raw: str) -> list[float]:
    match feature:
        case NumberFeature():
            value = min(max(_number(feature.name, raw), feature.min), feature.max)
            entries = [2 * ((value - feature.min) / (feature.max - feature.min)) - 1]
        case CategoryFeature():
            if raw not in feature.values:
                raise BadValue(feature.name, f"unknown category; allowed: {_listed(feature.values)}")
            entries = [float(raw == value) for value in feature.values]
    return [*entries, 0.0] if feature.missing == "indicator" else entries


def _number(column: str, raw: str) -> float:
    if not _NUMBER.fullmatch(raw):
        comma = ", and the decimal sign is a point" if "," in raw else ""
        raise BadValue(column, f"not a number; allowed: as in 12 or 1.5{comma}")
    value = float(raw)
    if not isfinite(value):
        raise BadValue(column, "a number too large")
    return value


def _listed(names: Mapping[str, object] | tuple[str, ...]) -> str:
    """The first of the names that are allowed; they are public."""
    shown = list(names)[:12]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "")
