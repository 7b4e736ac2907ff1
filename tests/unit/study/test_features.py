"""The encoding: values, rules for missing ones, labels; and that an error never holds a value."""

import numpy as np
import pytest

from secureproto.study.features import BadValue, FeatureSchema, LabelSchema, MissingValue, record_shape
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from support.study_toml import dumps, image_table, put, tabular_table

STUDY = load(dumps(tabular_table()))
RECORD = {"age": "50", "dose": "0.5", "rate": "120", "sex": "m", "pain": "2", "ecg": "1"}


def encode(**changes: str) -> list[float]:
    values: list[float] = FeatureSchema(STUDY).encode({**RECORD, **changes}).tolist()
    return values


def test_names_and_width() -> None:
    schema = FeatureSchema(STUDY)
    assert schema.names == ("age", "dose", "rate", "sex", "pain", "ecg")
    assert schema.encoded == (
        "age", "dose", "dose missing", "rate", "sex=f", "sex=m",
        "pain=1", "pain=2", "pain=3", "pain missing", "ecg=0", "ecg=1",
    )  # fmt: skip
    assert schema.width == 12
    assert record_shape(STUDY) == (12,)
    assert record_shape(load(dumps(image_table()))) == (1, 8, 6)


def test_a_whole_record() -> None:
    encoded = FeatureSchema(STUDY).encode(RECORD)
    assert encoded.dtype == np.float32
    assert encoded.tolist() == [0.0, -0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("raw", "value"), [("20", -1), ("80", 1), ("-5", -1), ("1e9", 1), (" 35 ", -0.5), ("+65.", 0.5)]
)
def test_numbers_are_clamped_to_the_public_range(raw: str, value: float) -> None:
    assert encode(age=raw)[0] == value


@pytest.mark.parametrize("missing", ["", "NA", "  "])
def test_missing_values_by_their_rule(missing: str) -> None:
    with pytest.raises(MissingValue, match=r"^column age: missing$"):
        encode(age=missing)
    assert encode(dose=missing)[1:3] == [0.0, 1.0]
    assert encode(rate=missing)[3] == encode(rate="80")[3]
    assert encode(pain=missing)[6:10] == [0.0, 0.0, 0.0, 1.0]
    assert encode(ecg=missing)[10:] == [1.0, 0.0]


def test_an_absent_column_is_missing() -> None:
    with pytest.raises(MissingValue):
        FeatureSchema(STUDY).encode({key: value for key, value in RECORD.items() if key != "sex"})


@pytest.mark.parametrize("raw", ["secret7", "nan", "inf", "1_0", "0x1f", "٣", "1,5", "--1", "1e", "1e99999", "1e999"])
def test_text_in_a_number_is_refused_without_its_value(raw: str) -> None:
    with pytest.raises(BadValue) as caught:
        encode(age=raw)
    assert caught.value.column == "age"
    assert raw not in caught.value.message.replace("allowed: as in 12 or 1.5", "")


def test_a_decimal_comma_is_explained() -> None:
    with pytest.raises(BadValue, match="the decimal sign is a point"):
        encode(dose="1,5")


def test_an_unknown_category_names_what_is_allowed() -> None:
    with pytest.raises(BadValue) as caught:
        encode(pain="secret7")
    assert caught.value.message == "column pain: unknown category; allowed: 1, 2, 3"


def test_outside_range_names_the_clamped() -> None:
    schema = FeatureSchema(STUDY)
    assert schema.outside_range(RECORD) == ()
    assert schema.outside_range({**RECORD, "age": "3", "rate": "201", "dose": ""}) == ("age", "rate")


def with_labels(**values: str) -> StudyFile:
    return load(dumps(put(tabular_table(), "data.label.values", values)))


def test_labels_by_the_map_of_the_study() -> None:
    labels = LabelSchema(STUDY)
    assert [labels.index(raw) for raw in ("0", " 1", "2")] == [0, 1, 1]
    assert labels.index_of_integer(2) == 1
    with pytest.raises(BadValue, match=r"^column out: unknown label; allowed: 0, 1, 2$"):
        labels.index("yes")
    with pytest.raises(BadValue, match=r"^column out: the label is missing$"):
        labels.index("NA")
    with pytest.raises(BadValue, match="unknown label"):
        labels.index_of_integer(3)


def test_labels_without_a_map_are_classes_or_indices() -> None:
    labels = LabelSchema(with_labels())
    assert [labels.index("yes"), labels.index_of_integer(1)] == [1, 1]
    for wrong in (-1, 2):
        with pytest.raises(BadValue, match="allowed: 0 to 1"):
            labels.index_of_integer(wrong)
    with pytest.raises(BadValue, match="allowed: no, yes"):
        labels.index("1")


def test_extreme_ranges_stay_finite() -> None:
    study = load(
        dumps(put(tabular_table(), "data.features.0", {"name": "age", "kind": "number", "min": -8e307, "max": 8e307}))
    )
    assert FeatureSchema(study).encode({**RECORD, "age": "8e307"})[0] == 1
