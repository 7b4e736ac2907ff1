"""The `[privacy]` section: read whole, and what it cannot protect refused."""

import re
from math import nan, sqrt

import pytest

from secureproto.errors import Misconfigured
from secureproto.study.file import load
from secureproto.study.privacy import PrivatePrototypes
from support.study_toml import Table, dumps, private_table, put


def test_every_key_is_read() -> None:
    table = put(put(private_table(), "privacy.training.gradients", "hooks"), "privacy.prototypes.release_every", 2)
    privacy = load(dumps(table)).privacy
    assert privacy is not None
    assert privacy.training is not None
    assert (privacy.unit, privacy.adjacency, privacy.max_epsilon_study) == ("record", "add_remove", 8.0)
    assert (privacy.training.steps, privacy.training.gradients) == (20, "hooks")
    assert [privacy.prototypes.releases_in(number) for number in range(4)] == [True, False, True, False]


def test_a_study_need_not_have_it() -> None:
    table = private_table()
    del table["privacy"]
    assert load(dumps(table)).privacy is None


def test_training_may_leave_without_protection_and_prototypes_may_not() -> None:
    assert load(dumps(put(private_table(), "privacy.training", None))).privacy is not None
    with pytest.raises(Misconfigured, match=r"privacy\.prototypes: missing"):
        load(dumps(put(private_table(), "privacy.prototypes", None)))


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("model.normalise_embedding", False, "model.normalise_embedding: false, which [privacy] excludes"),
        ("stopping", {"relative_tolerance": 0.1, "patience": 2}, "stopping: a loss would leave without noise"),
        ("prototypes.weighting", "uniform", "prototypes.weighting: with [privacy] noisy sums are divided once"),
        ("relation.representation", "presence", "relation: with [privacy] heads are mixed by noisy sums"),
        ("relation", {"normalisation": "row_sum", "form": "linear"}, "relation: with [privacy] heads are mixed"),
        ("privacy.unit", "patient", "privacy.unit: patient is not built"),
        ("privacy.adjacency", "replace_one", "privacy.adjacency: 'replace_one' is not allowed"),
        ("privacy.training.local_epochs", 3, "privacy.training.local_epochs: unknown key"),
        ("privacy.training.steps", 0, "privacy.training.steps: 0 is outside the bounds; allowed: at least 1"),
        ("privacy.training.steps", None, "privacy.training.steps: missing"),
    ],
)
def test_what_it_excludes(path: str, value: object, text: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        load(dumps(put(private_table(), path, value)), name="s.toml")
    assert f"s.toml: {text}" in caught.value.message
    assert "\n" not in caught.value.message


NUMBERS = (
    "max_epsilon_study",
    "max_delta",
    "training.noise_multiplier",
    "training.max_grad_norm",
    "training.sample_rate",
    "training.expected_batch",
    "training.learning_rate",
    "prototypes.noise_multiplier",
    "prototypes.max_embedding_norm",
)


@pytest.mark.parametrize("value", [0.0, -1.0, nan, float("inf"), 1e300])
@pytest.mark.parametrize("key", NUMBERS)
def test_absurd_numbers_are_refused_in_one_line(key: str, value: float) -> None:
    text = dumps(put(private_table(), f"privacy.{key}", 4.25)).decode()
    with pytest.raises(Misconfigured) as caught:
        load(re.sub(r"\b4\.25\b", str(value), text).encode())
    assert f"privacy.{key}: " in caught.value.message
    assert "\n" not in caught.value.message


def test_the_weight_of_a_count_follows_from_public_numbers() -> None:
    section = PrivatePrototypes(noise_multiplier=1.0, max_embedding_norm=2.0)
    assert section.count_weight(64) == pytest.approx(sqrt(2.0 * 1.5 / 8.0), rel=1e-12)  # c² = R·0.75 R/√d


def test_the_table_is_what_it_seems() -> None:
    table: Table = private_table()
    assert "stopping" not in table
