"""Whatever is changed in a study file, it loads or is refused with one line; whatever the records, each is alone."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.errors import Misconfigured
from secureproto.study.features import BadValue, FeatureSchema
from secureproto.study.file import digest, load
from secureproto.study.schema import StudyFile
from support.study_toml import HEART, Table, dumps, image_table, put, tabular_table

STUDY = load(dumps(tabular_table()))

texts = st.text(max_size=12)
scalars = texts | st.integers() | st.floats() | st.booleans() | st.sampled_from(["10m", "mlp", "softmax", "yes"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=4
)


def paths(node: object, prefix: str = "") -> Iterator[str]:
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in entries:
        yield f"{prefix}{key}"
        yield from paths(item, f"{prefix}{key}.")


PATHS = [*paths(tabular_table()), "relation.power", "relation.form", "model.options", "data.bad_record", "rounds.x"]


def refusal(data: bytes) -> str:
    """The message and hint of a refused file; empty for one that loads."""
    try:
        study = load(data, name="s.toml")
    except Misconfigured as error:
        return f"{error.message} | {error.hint}"
    assert isinstance(study, StudyFile)
    return ""


def loads_or_one_line(data: bytes) -> None:
    line = refusal(data)
    assert line.isprintable()
    assert not line or line.startswith("s.toml: ")
    assert "pydantic" not in line
    assert "see SPEC.md for what is" not in line, "an error type without its sentence"


@given(st.sampled_from(PATHS), values)
def test_any_value_at_any_key(path: str, value: object) -> None:
    loads_or_one_line(dumps(put(tabular_table(), path, value)))


@given(st.sampled_from(["model", "data", "data.label", "data.features"]), texts, values)
def test_any_key_in_any_section(section: str, key: str, value: object) -> None:
    table = image_table()
    node: object = put(table, "data.features", {}) if section == "data.features" else table
    for part in section.split("."):
        assert isinstance(node, dict)
        node = node.setdefault(part, {})
    assert isinstance(node, dict)
    node[key] = value
    loads_or_one_line(dumps(table))


@given(st.binary(max_size=8), st.integers(min_value=0, max_value=len(HEART)), st.integers(min_value=0, max_value=40))
def test_any_change_of_the_bytes(inserted: bytes, start: int, cut: int) -> None:
    loads_or_one_line(HEART[:start] + inserted + HEART[start + cut :])


@given(
    st.fixed_dictionaries(
        {
            "training.learning_rate": st.floats(1e-9, 1e3),
            "training.batch_size": st.integers(1, 10_000),
            "training.alignment_weight": st.floats(0, 100),
            "model.embedding_width": st.integers(1, 4096),
            "model.hidden": st.lists(st.integers(1, 512), max_size=3),
            "relation.temperature": st.floats(1e-3, 10),
            "rounds.participation": st.floats(0.01, 1),
            "title": st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=30),
        }
    )
)
def test_what_is_written_is_what_is_read(changes: Table) -> None:
    table = tabular_table()
    for path, value in changes.items():
        put(table, path, value)
    data = dumps(table)
    study = load(data)
    for path, value in changes.items():
        section, _, key = path.rpartition(".")
        read = getattr(getattr(study, section) if section else study, key)
        assert (list(read) if isinstance(read, tuple) else read) == value
    assert load(data) == study
    assert digest(data) == digest(bytes(data))
    assert digest(data) != digest(data + b" ")


raw = st.sampled_from(["", "NA", "1", "2", "3", "m", "f", "0", "50", "-1e5", "0.25", "x"]) | st.text(max_size=5)
record = st.fixed_dictionaries(dict.fromkeys(FeatureSchema(STUDY).names, raw))


def encoded(record: dict[str, str], schema: FeatureSchema) -> list[float] | str:
    try:
        vector = schema.encode(record)
    except BadValue as error:
        return error.message
    assert vector.shape == (schema.width,)
    assert np.abs(vector).max() <= 1
    values: list[float] = vector.tolist()
    return values


@given(st.lists(record, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_record_is_encoded_by_itself(records: list[dict[str, str]], order: object) -> None:
    together = FeatureSchema(STUDY)
    all_of_them = [encoded(item, together) for item in records]
    assert all_of_them == [encoded(item, FeatureSchema(STUDY)) for item in records]
    assert all_of_them[::-1] == [encoded(item, together) for item in reversed(records)]


@pytest.mark.parametrize("data", [HEART, dumps(tabular_table()), dumps(image_table())])
def test_the_examples_load(data: bytes) -> None:
    load(data)
