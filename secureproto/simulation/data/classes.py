"""What published sets share: integer labels in the study's order of classes, images of bytes as records."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from secureproto.data.arrays import scaled
from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.simulation.population import Pool
from secureproto.study.features import BadRecord, LabelSchema, record_shape
from secureproto.study.schema import StudyFile

CHUNK = 4096  # images scaled at once: the scaling makes two arrays of its own, so not all of them


class Labelled(NamedTuple):
    """Images (n, channels, height, width) of bytes, and their labels (n,), counted from 0."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


def byte_images(name: str, study: StudyFile, *, classes: int, train: Labelled, test: Labelled) -> Pool:
    """The pool of a set with its own test part. Bytes are scaled to [-1, 1] as those of a site are.

    Raises:
        Misconfigured: other images than the study's, a label over `classes`, classes that the study does not have.
    """
    for part in (train, test):
        check_shape(name, study, part.images.shape[1:])
    y = np.concatenate([class_indices(name, study, part.labels, classes) for part in (train, test)])
    x = np.empty((len(y), *train.images.shape[1:]), dtype=np.float32)
    for start, part in ((0, train), (len(train.labels), test)):
        for first in range(0, len(part.labels), CHUNK):
            piece = part.images[first : first + CHUNK]
            x[start + first : start + first + len(piece)] = scaled(piece)
    return Pool(Records(x, y), held_out=np.arange(len(y)) >= len(train.labels))


def check_shape(name: str, study: StudyFile, shape: tuple[int, ...]) -> None:
    """Raises Misconfigured if the study's records have another shape than those of the set."""
    if study.data.kind != "image" or record_shape(study) != shape:
        sizes = " × ".join(map(str, shape))
        raise Misconfigured(
            f"{name}: images of {sizes}, and the study {study.name} has other records",
            hint=f"take the study file of {name}, or set data.kind, model.channels, height and width",
        )


def class_indices(name: str, study: StudyFile, labels: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """(n,) int64 indices into `study.classes` of labels from 0 to `classes` − 1, as `LabelSchema` maps them.

    Raises:
        Misconfigured: a label out of range, or one that the study does not have.
    """
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise Misconfigured(f"{name}: a label is not one of its {classes}; the file is another or damaged")
    schema = LabelSchema(study)
    try:
        table = [schema.index_of_integer(label) for label in range(classes)]
    except BadRecord as error:
        raise Misconfigured(
            f"{name}: its {classes} classes are not those of the study {study.name}: {error.message}",
            hint=f"take the study file of {name}, or map its labels under data.label.values",
        ) from None
    indices: NDArray[np.int64] = np.array(table, dtype=np.int64)[labels]
    return indices
