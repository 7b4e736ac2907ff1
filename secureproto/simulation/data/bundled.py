"""The two small sets that scikit-learn brings with it: handwritten digits, and breast masses.

Sources: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998 (its test part,
of 13 people). W. Wolberg, O. Mangasarian, N. Street, W. Street, "Breast Cancer Wisconsin (Diagnostic)", UCI, 1993.
"""

from typing import Any

import numpy as np

from secureproto.data.gathering import Gathering
from secureproto.data.holdout import Side
from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.simulation.data.classes import check_shape, class_indices
from secureproto.simulation.data.reading import Reading
from secureproto.simulation.population import Pool
from secureproto.study.features import BadRecord, FeatureSchema, LabelSchema
from secureproto.study.schema import StudyFile

DIGITS, BREAST_CANCER = "digits", "breast-cancer"
DIGIT_RANGE = np.float32(16)  # each pixel counts the dots of a 4 × 4 square of the scan
DIAGNOSIS = "diagnosis"  # the column that holds "malignant" or "benign"


def read_digits(study: StudyFile) -> Reading:
    """1,797 images of 1 × 8 × 8, ten classes. No sites, no test part of its own.

    Raises:
        Misconfigured: scikit-learn is not installed, or the study has other records or classes.
    """
    found = _datasets(DIGITS).load_digits()
    images = np.asarray(found.images, dtype=np.float32)[:, np.newaxis]
    check_shape(DIGITS, study, images.shape[1:])
    x = images * (2 / DIGIT_RANGE) - np.float32(1)
    return Reading(Pool(Records(x, class_indices(DIGITS, study, found.target, 10))))


def read_breast_cancer(study: StudyFile) -> Reading:
    """569 rows of 30 numbers, of which the study may name fewer. No sites, no test part of its own.

    Raises:
        Misconfigured: scikit-learn is not installed, or the study names other columns or classes.
    """
    found = _datasets(BREAST_CANCER).load_breast_cancer()
    columns = [str(name) for name in found.feature_names]
    features, labels = _schemas(study, columns)
    gathering = Gathering(study, BREAST_CANCER)
    for number, (values, target) in enumerate(zip(found.data.tolist(), found.target.tolist(), strict=True), start=1):
        record = dict(zip(columns, map(repr, values), strict=True))
        try:
            label = labels.index(str(found.target_names[target]))
            gathering.add(features.encode(record), label, Side.TRAIN)
            gathering.clamped(features.outside_range(record))
        except BadRecord as error:
            gathering.isolation.isolate(f"row {number}", error)
    loaded = gathering.loaded()
    return Reading(Pool(loaded.train), loaded.isolated, loaded.notes, loaded.clamped)


def _schemas(study: StudyFile, columns: list[str]) -> tuple[FeatureSchema, LabelSchema]:
    hint = f"take the study file of {BREAST_CANCER}, or features out of it"
    if study.data.kind != "tabular":
        raise Misconfigured(f"{BREAST_CANCER}: is a table, and the study {study.name} has images", hint=hint)
    features, labels = FeatureSchema(study), LabelSchema(study)
    unknown = [name for name in features.names if name not in columns]
    if labels.column != DIAGNOSIS:
        unknown.append(labels.column)
    if unknown:
        raise Misconfigured(f"{BREAST_CANCER}: has no column {', '.join(unknown)}", hint=hint)
    return features, labels


def _datasets(name: str) -> Any:
    try:
        from sklearn import datasets  # here: a second to load, and only these two need it
    except ImportError:
        raise Misconfigured(
            f"{name}: comes with scikit-learn, which is not installed", hint="install scikit-learn"
        ) from None
    return datasets
