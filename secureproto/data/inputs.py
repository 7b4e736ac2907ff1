"""What `predict` reads: records without a label, from a CSV file, an image, or a folder of images.

A record whose values are missing, where the rule is to drop it, gets no prediction and is named; one that cannot
be read follows the study's `data.bad_record`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from secureproto.data.csvfile import open_table
from secureproto.data.gathering import Isolation
from secureproto.data.settings import CsvSettings
from secureproto.data.tabular import own_columns
from secureproto.errors import Misconfigured
from secureproto.study.features import BadRecord, FeatureSchema, record_shape
from secureproto.study.schema import StudyFile

_ID = "\0id"  # beside the study's columns; no column of a study can have this name


@dataclass(frozen=True, eq=False)
class Inputs:
    """Records to predict. `names` (one each): the id where the file has the site's id column, else the row number, or
    the path of an image. `left_out`: the places of the first records without a prediction, one line each;
    `left_out_count` counts all of them.
    """

    x: NDArray[np.float32]
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    left_out_count: int


def read_inputs(path: Path, study: StudyFile, csv: CsvSettings | None = None) -> Inputs:
    """The records of a file or folder; `csv` gives delimiter, names of columns and id column of the site's files.

    Raises:
        Misconfigured: it cannot be read, does not fit the study, or has no record at all.
    """
    isolation = Isolation(study, str(path))
    names: list[str] = []
    rows: list[NDArray[np.float32]] = []
    source = _table(path, study, csv, isolation) if study.data.kind == "tabular" else _images(path, study, isolation)
    for name, x in source:
        names.append(name)
        rows.append(x)
    count = isolation.counts.total()
    if not rows and not count:
        raise Misconfigured(f"{path}: no record", hint="give a file with at least one")
    stacked = np.stack(rows) if rows else np.empty((0, *record_shape(study)), np.float32)
    return Inputs(stacked, tuple(names), tuple(isolation.notes), count)


def _table(
    path: Path, study: StudyFile, csv: CsvSettings | None, isolation: Isolation
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    features = FeatureSchema(study)
    renamed = {name: own for name, own in csv.columns.items() if name in features.names} if csv else {}
    wanted = own_columns(features.names, renamed)
    with open_table(path, csv.delimiter if csv else ",", list(wanted.values())) as (columns, rows):
        if csv and csv.id_column is not None and csv.id_column in columns:
            wanted[_ID] = csv.id_column
        for row in rows:
            try:
                fields = columns.take(row, wanted)
                yield fields.get(_ID, str(row.number)), features.encode(fields)
            except BadRecord as error:
                isolation.isolate(row.where, error)


def _images(path: Path, study: StudyFile, isolation: Isolation) -> Iterator[tuple[str, NDArray[np.float32]]]:
    from secureproto.data.images import (
        decode,
        image_files,
        shown,
    )  # here: a tabular site needs no image library

    for file in image_files(path) if path.is_dir() else [path]:
        name = file.relative_to(path).as_posix() if path.is_dir() else file.name
        try:
            yield name, decode(file, study)
        except BadRecord as error:
            isolation.isolate(shown(name), error)
