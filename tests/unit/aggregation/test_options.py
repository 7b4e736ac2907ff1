"""Options: impossible ones cannot be made, and a study file's arrive whole."""

from typing import Any

import pytest

from secureproto.aggregation.options import Options, aggregation_options
from secureproto.study.schema import StudyFile


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_holders": 0},
        {"power": 0.0},
        {"power": float("inf")},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"max_peer_share": 0.0},
        {"max_peer_share": 1.1},
        {"form": "linear", "normalisation": "softmax"},
        {"form": "linear", "normalisation": "power"},
        {"form": "linear", "max_peer_share": 0.5},
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"min_holders|power|max_peer_share|linear"):
        Options(**wrong)


def _study(relation: dict[str, object], prototypes: dict[str, object]) -> StudyFile:
    return StudyFile.model_validate(
        {
            "name": "heart",
            "classes": ["absent", "present"],
            "model": {"name": "mlp", "embedding_width": 16},
            "data": {
                "kind": "tabular",
                "features": [{"name": "age", "kind": "number", "min": 25.0, "max": 80.0}],
                "label": {"column": "disease"},
            },
            "training": {"local_epochs": 1, "batch_size": 8, "learning_rate": 0.1},
            "rounds": {"total": 3, "quorum": 2, "deadline": "10m"},
            "relation": relation,
            "prototypes": prototypes,
        }
    )


def test_a_study_says_them_all() -> None:
    study = _study(
        {"representation": "presence", "normalisation": "softmax", "temperature": 0.1, "max_peer_share": 0.5},
        {"weighting": "uniform", "min_holders": 3},
    )
    assert aggregation_options(study) == Options("uniform", 3, "presence", "softmax", 1.0, 0.1, 0.8, 0.5, "auto")
    study = _study({"normalisation": "power", "power": 16.0, "form": "matrix"}, {})
    assert aggregation_options(study) == Options(normalisation="power", power=16.0, form="matrix")


def test_a_studys_defaults_are_the_rooms() -> None:
    assert aggregation_options(_study({}, {})) == Options()
