"""The seam of the site's data, and what a load must give whatever the source is.

1. `load` reads the data anew each time and keeps nothing open.
2. Each record is encoded by itself, as the study says; nothing is estimated from the site's rows.
3. A record with a missing value follows its feature's rule. One that cannot be read follows the study's
   `data.bad_record`: `stop` raises Misconfigured that names the place, `drop` isolates and counts it.
4. A class that the site does not have is normal. No record to train on is an error.
5. No message, count or note holds a value of a record.

A third party's source is tried by `tests/contract/test_data_source.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.study.features import record_shape
from secureproto.study.schema import StudyFile


class Isolated(StrEnum):
    """Why a record takes no part."""

    MISSING = "missing"  # a value is missing and the feature's rule is to drop the record
    BAD = "bad"  # it cannot be read
    NO_SPLIT = "no_split"  # the data's own split puts it on neither side


@dataclass(frozen=True)
class Loaded:
    """A site's records, divided. These are counts and places of the site's own: they never leave it.

    `isolated`: how many records take no part, by reason. `notes`: the places of the first of them, one line
    each. `clamped`: values outside the public range, by feature; many of them mean another unit. `train_ids`: the
    id of each training record, empty for one without; None where the data have no ids.
    """

    train: Records
    test: Records
    isolated: Mapping[Isolated, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    clamped: Mapping[str, int] = field(default_factory=dict)
    train_ids: tuple[str, ...] | None = None


class DataSource(Protocol):
    """Reads a site's data for a study."""

    def load(self, study: StudyFile) -> Loaded:
        """The records of this site.

        Raises:
            Misconfigured: the data cannot be read, or do not fit the study.
            Unavailable: they are not there now (a download failed).
        """
        ...


def check_loaded(loaded: Loaded, study: StudyFile, name: str) -> Loaded:
    """`loaded` itself if it keeps the contract; `name` names the source in errors.

    Raises:
        Misconfigured: another shape than the study's, a number that is not finite, a label out of range, not one id
            for each record, or no record to train on.
    """
    shape = record_shape(study)
    for part, records in (("training", loaded.train), ("hold-out", loaded.test)):
        if records.x.shape[1:] != shape:
            raise Misconfigured(f"{name}: {part} records of shape {records.x.shape[1:]}; the study has {shape}")
        if not np.isfinite(records.x).all():
            raise Misconfigured(f"{name}: a number of the {part} records is not finite")
        if len(records) and not (records.y.min() >= 0 and records.y.max() < len(study.classes)):
            raise Misconfigured(f"{name}: a label of the {part} records is not one of the study's classes")
    if loaded.train_ids is not None and len(loaded.train_ids) != len(loaded.train):
        raise Misconfigured(f"{name}: not one id for each training record")
    if len(loaded.train) == 0:
        out = ", ".join(f"{count} {reason}" for reason, count in loaded.isolated.items()) or "none"
        raise Misconfigured(
            f"{name}: no record to train on (held out: {len(loaded.test)}; left out: {out})",
            hint="check the path, the missing values of the features, and hold_out",
        )
    return loaded
