"""A study file is read whole or refused with one line: file, key, what is wrong, what is allowed."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from secureproto.errors import Misconfigured
from secureproto.study.checks import Section
from secureproto.study.columns import CategoryFeature, NumberFeature
from secureproto.study.file import digest, load
from secureproto.study.privacy import PrivacySection, PrivatePrototypes, PrivateTraining
from secureproto.study.schema import (
    BoundsSection,
    DataSection,
    LabelSection,
    ModelSection,
    PrototypeSection,
    RelationSection,
    RoundsSection,
    StoppingSection,
    TrainingSection,
)
from secureproto.wire.limits import LIMITS
from support.study_toml import HEART, Table, dumps, image_table, put, tabular_table

SECTIONS: list[type[Section]] = [
    ModelSection,
    DataSection,
    LabelSection,
    NumberFeature,
    CategoryFeature,
    TrainingSection,
    PrototypeSection,
    RelationSection,
    RoundsSection,
    StoppingSection,
    BoundsSection,
    PrivacySection,
    PrivateTraining,
    PrivatePrototypes,
]


def refusal(data: bytes) -> str:
    with pytest.raises(Misconfigured) as caught:
        load(data, name="s.toml")
    assert "\n" not in caught.value.message
    return caught.value.message


def test_every_section_is_read(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_bytes(dumps(tabular_table()))
    study = load(path)
    assert study.classes == ("no", "yes")
    assert study.model.hidden == (8,)
    assert [feature.width for feature in study.data.features] == [1, 2, 1, 2, 4, 2]
    assert study.training.local_steps == 5
    assert study.relation.temperature == 0.1
    assert (study.rounds.deadline, study.rounds.grace, study.rounds.participation) == (600, 0, 1.0)
    assert study.reports_loss
    assert study.data.bad_record == "stop"


def test_an_image_study_is_read() -> None:
    study = load(dumps(image_table()))
    assert (study.model.channels, study.model.height, study.model.width) == (1, 8, 6)
    assert study.data.bad_record == "drop"
    assert load(dumps(put(image_table(), "data.bad_record", "stop"))).data.bad_record == "stop"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("30d", 2_592_000)]
)
def test_durations(text: str, seconds: int) -> None:
    assert load(dumps(put(tabular_table(), "rounds.deadline", text))).rounds.deadline == seconds


TABULAR = [
    # types and unknown keys
    ("name", None, "s.toml: name: missing; this key must be given"),
    ("name", "Heart", "name: 'Heart' is no name; allowed: a-z, 0-9"),
    ("name", 3, "name: 3 is not a text; allowed: a text"),
    ("colour", "red", "colour: unknown key; allowed: name, title, classes"),
    ("training.lerning_rate", 0.1, "training.lerning_rate: unknown key (did you mean learning_rate?); allowed:"),
    ("stopping.tolerance", 1, "stopping.tolerance: unknown key (did you mean relative_tolerance?)"),
    ("data.features.3.min", 1, "data.features[4] (sex).min: unknown key; allowed: kind, name, values, unit"),
    ("training.learning_rate", "0.1", "training.learning_rate: '0.1' is not a number; allowed: a number"),
    ("training.batch_size", 8.0, "training.batch_size: 8.0 is not an integer"),
    ("training.batch_size", True, "training.batch_size: True is not an integer"),
    ("training.batch_size", 0, "training.batch_size: 0 is outside the bounds; allowed: at least 1"),
    ("training.learning_rate", float("nan"), "training.learning_rate: nan is not a finite number"),
    ("training.momentum", 1, "training.momentum: 1 is outside the bounds; allowed: under 1"),
    ("training", 3, "training: 3 is not a table; allowed: a table"),
    ("classes", "no", "classes: 'no' is not a list; allowed: a list"),
    ("classes", ["no"], "classes: 1 entries; allowed: at least 2"),
    ("classes", ["no", 1], "classes[2]: 1 is not a text"),
    ("model.normalise_embedding", 1, "model.normalise_embedding: 1 is not true or false"),
    ("relation.normalisation", "max", "relation.normalisation: 'max' is not allowed; allowed: 'row_sum', 'power'"),
    ("data.features.0.kind", "date", "data.features[1] (age).kind: 'date' is not a kind of feature; allowed: number"),
    ("data.features.0.kind", None, "data.features[1] (age).kind: missing; allowed: number or category"),
    ("data.features.0", 7, "data.features[1]: 7 is not a table; allowed: a table"),
    ("data.features.0.max", None, "data.features[1] (age).max: missing; this key must be given"),
    ("rounds.deadline", 600, "rounds.deadline: 600 is no duration; allowed: a text such as \"90s\""),
    ("rounds.deadline", "10 min", "rounds.deadline: '10 min' is no duration"),
    ("rounds.deadline", "31d", "rounds.deadline: '31d' is too long; allowed: up to 30d"),
    # across fields
    ("training.local_epochs", 2, "training.local_steps: given together with local_epochs; allowed: exactly one"),
    ("training.local_steps", None, "training.local_epochs: missing; give exactly one"),
    ("relation.temperature", None, "relation.temperature: missing; normalisation softmax needs a number over 0"),
    ("relation.power", 2, "relation.power: only with normalisation power, and this one is softmax"),
    ("relation.form", "linear", "relation.form: linear needs normalisation row_sum, not softmax"),
    ("rounds.grace", "20m", "rounds.grace: longer than the deadline; allowed: up to rounds.deadline"),
    ("rounds.deadline", "0s", "rounds.deadline: 0 s; a round needs time"),
    ("rounds.quorum", 100_001, "rounds.quorum: 100001 is outside the bounds; allowed: at most 100000"),
    ("rounds.participation", 0, "rounds.participation: 0 is outside the bounds; allowed: over 0"),
    ("stopping.patience", 10, "stopping.patience: never reached in 10 rounds"),
    ("training.alignment_warmup_rounds", 11, "training.alignment_warmup_rounds: over rounds.total"),
    ("classes", ["no", "no"], "classes: 'no' stands there twice; each must be different"),
    ("classes", ["no", "perhaps"], "data.label.values: '1' goes to 'yes'; allowed: no, perhaps"),
    ("classes", ["no", "yes "], "classes[2]: empty, or with a blank at an end"),
    ("title", "two\nlines", "title: not a printable line"),
    ("data.features.1.name", "age", "data.features: 'age' stands there twice"),
    ("data.features.0.name", "out", "data.label.column: 'out' is a feature too"),
    ("data.features.0.min", 80, "data.features[1] (age).min: 80.0 is not under max 80.0; allowed: min < max"),
    ("data.features.2.fill", 300, "data.features[3] (rate).fill: 300.0 is outside the range; allowed: 40.0 to 200.0"),
    ("data.features.2.fill", None, "data.features[3] (rate).fill: missing"),
    ("data.features.0.fill", 30, 'data.features[1] (age).fill: only with missing = "fixed", and this one is "drop"'),
    ("data.features.5.fill", "9", "data.features[6] (ecg).fill: '9' is not one of values; allowed: 0, 1"),
    ("data.features.3.values", ["f", "f"], "data.features[4] (sex).values: 'f' stands there twice"),
    ("data.features.3.values", [], "data.features[4] (sex).values: 0 entries; allowed: at least 1"),
    ("data.features", [], "data.features: missing; a tabular study needs at least one [[data.features]]"),
    ("data.label.column", None, "data.label.column: missing; a tabular study names the column"),
    ("data.missing_values", ["", ""], "data.missing_values: '' stands there twice"),
    ("model.name", "transformer", "model.name: 'transformer' is not a model; allowed: mlp, cnn, resnet18, or"),
    ("model.name", "cnn", "model.name: cnn takes images; allowed: mlp, or package.module:factory"),
    ("model.options", {"depth": 3}, "model.options: only a package.module:factory takes options"),
    ("model.height", 28, "model.height: only in an image study"),
    ("data.features.0.max", 1e308 * 10, "data.features[1] (age).max: inf is not a finite number"),
]  # fmt: skip

IMAGE = [
    ("model.height", None, "model.height: missing; an image study gives model.channels, height and width"),
    ("model.name", "resnet18", ""),
    ("data.features", [{"name": "a", "kind": "number", "min": 0, "max": 1}], "data.features: an image study has no"),
    ("data.label.column", "class", "data.label.column: an image study has no columns"),
    ("model.width", 5000, "model.width: 5000 is outside the bounds; allowed: at most 4096"),
]


@pytest.mark.parametrize(("path", "value", "expected"), TABULAR, ids=[f"{c[0]}={c[1]}"[:40] for c in TABULAR])
def test_one_line_says_what_is_wrong(path: str, value: object, expected: str) -> None:
    assert expected in refusal(dumps(put(tabular_table(), path, value)))


@pytest.mark.parametrize(("path", "value", "expected"), [case for case in IMAGE if case[2]])
def test_image_studies_too(path: str, value: object, expected: str) -> None:
    assert expected in refusal(dumps(put(image_table(), path, value)))


def test_a_range_that_no_float_spans() -> None:
    feature = {"name": "age", "kind": "number", "min": -1e308, "max": 1e308}
    line = refusal(dumps(put(tabular_table(), "data.features.0", feature)))
    assert "data.features[1] (age).max: the range is too wide for a float" in line


def test_the_linear_form_takes_no_cap() -> None:
    relation = {"normalisation": "row_sum", "form": "linear"}
    assert load(dumps(put(tabular_table(), "relation", relation))).relation.form == "linear"
    capped = put(tabular_table(), "relation", {**relation, "max_peer_share": 0.5})
    assert "relation.max_peer_share: the linear form has no shares to cap" in refusal(dumps(capped))


def test_a_factory_takes_options() -> None:
    model: Table = {"name": "acme.models:tree", "embedding_width": 4, "options": {"depth": 3, "names": ["a"]}}
    study = load(dumps(put(tabular_table(), "model", model)))
    assert study.model.is_factory
    assert study.model.options == {"depth": 3, "names": ["a"]}
    nested = put(put(tabular_table(), "model", model), "model.options", {"deep": {"er": 1}})
    assert "model.options.deep: no option; allowed: a text, a number" in refusal(dumps(nested))


def test_an_unknown_key_comes_before_its_consequences() -> None:
    table = put(put(tabular_table(), "training.batch_size", None), "training.batchsize", 8)
    assert refusal(dumps(table)).startswith("s.toml: training.batchsize: unknown key (did you mean batch_size?)")
    assert refusal(dumps(table)).endswith("(and 1 more)")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "s.toml: name: missing"),
        (b'name = "a"\nclasses = [1,,2]\n', "s.toml: line 2, column 14: invalid value"),
        (b'name = "a"\ntitle = "b', "s.toml: line 2, column 11: unterminated string"),
        (b'name = "a"\nname = "b"\n', "line 2, column 11: cannot overwrite a value"),
        (b'name = "caf\xe9"\n', "line 1, column 12: not UTF-8"),
        (b"\xff\xfen\x00", "line 1, column 1: not UTF-8"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"9" * 5000, "a number too long"),
        (b"#" * (LIMITS.study_file + 1), "larger than"),
        (b"name = 2026-01-01\n" + b'classes = ["a", "b"]\n', "(and "),
    ],
)
def test_bytes_that_are_no_study(data: bytes, expected: str) -> None:
    assert expected in refusal(data)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read: No such file or directory"):
        load(tmp_path / "none.toml")
    with pytest.raises(Misconfigured, match="cannot be read: Is a directory"):
        load(tmp_path)
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (LIMITS.study_file + 1))
    with pytest.raises(Misconfigured, match="larger than"):
        load(large)


def test_the_digest_is_that_of_the_bytes() -> None:
    # SHA-256 over LP(label) ‖ LP(bytes), made with hashlib alone
    assert digest(b'name = "a"\n') == "7cd0b39612b3c59e65e0ed92ea30eadd65a03f8395710b294b93c820863bc4dc"
    assert digest(HEART) != digest(HEART + b"\n")


def spec() -> str:
    return (files("secureproto.study") / "SPEC.md").read_text(encoding="utf-8")


def test_the_example_of_the_spec_loads() -> None:
    example = spec().partition("```toml\n")[2].partition("```")[0]
    assert load(example.encode()).name == "sepsis"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_the_spec_names_every_key(section: type[Section]) -> None:
    # in the table as `rounds.total` or `local_steps`, or in the example
    unnamed = [key for key in section.model_fields if not re.search(rf"\b{key}(`| = |\.)", spec())]
    assert unnamed == []
