"""The server side against numbers of an independent implementation, to 1e-12 of the largest entry."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.aggregation.extractor import ExtractorMean
from secureproto.aggregation.heads import linear_is_cheaper, mix, mix_by_rows, mix_linear, personalise
from secureproto.aggregation.options import Normalisation, Options, Representation
from secureproto.aggregation.prototypes import GlobalPrototypes, combine
from secureproto.aggregation.relation import cosines, relation_matrix, representations
from secureproto.wire.tensors import Tensor

FILES = sorted((Path(__file__).parent / "method").glob("*.json"))
RELATIONS = [
    f"{representation}/{kind}"
    for representation in ("presence", "prior")
    for kind in ("row_sum/1.0", "softmax/1.0", "softmax/0.1", "power/4")
]
Vector = dict[str, Any]


def _load(path: Path) -> Vector:
    vector: Vector = json.loads(path.read_text(encoding="utf-8"))
    return vector


def _class_sums(inputs: Vector) -> NDArray[np.float64]:
    counts = np.array(inputs["class_counts"], dtype=np.float64)[..., None]
    return np.concatenate([np.array(inputs["prototypes"]) * counts, counts], axis=2)


def _options(name: str) -> Options:
    representation, normalisation, parameter = name.split("/")
    kinds: dict[str, Representation] = {"presence": "presence", "prior": "prior"}
    norms: dict[str, Normalisation] = {"row_sum": "row_sum", "power": "power", "softmax": "softmax"}
    number = float(parameter)
    return Options(
        representation=kinds[representation], normalisation=norms[normalisation], power=number, temperature=number
    )


def _agree(found: NDArray[Any], expected: object) -> None:
    wanted = np.array(expected, dtype=np.float64)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max()


def test_all_vectors_are_here_and_none_is_skipped() -> None:
    assert len(FILES) == 5
    for path in FILES:
        vector = _load(path)
        assert set(vector["expected"]["relations"]) == set(RELATIONS)
        assert set(vector["expected"]) == {
            "global_prototypes", "present", "extractor", "relations", "alignment_loss",
        }  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_global_prototypes(path: Path) -> None:
    inputs, expected = _load(path)["inputs"], _load(path)["expected"]
    present = np.array(inputs["previous_present"])
    previous = GlobalPrototypes(np.array(inputs["previous_prototypes"]), np.where(present, 4, -1).astype(np.int64))
    found = combine(_class_sums(inputs), previous, weighting=inputs["weighting"], min_holders=inputs["min_holders"])
    _agree(found.values, expected["global_prototypes"])
    assert found.present.tolist() == expected["present"]
    holders = (np.array(inputs["class_counts"]) > 0).sum(axis=0)
    assert found.age.tolist() == np.where(holders >= inputs["min_holders"], 0, np.where(present, 5, -1)).tolist()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_extractor(path: Path) -> None:
    inputs, expected = _load(path)["inputs"], _load(path)["expected"]
    extractors = np.array(inputs["extractors"])
    mean = ExtractorMean([Tensor("w", "F64", extractors.shape[1:])])
    for site, (counts, values) in enumerate(zip(inputs["class_counts"], extractors, strict=True)):
        mean.begin(sum(counts), site=f"site-{site}")
        mean.add("w", 0, values)
        mean.end()
    _agree(mean.result()["w"], expected["extractor"])


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_relation_and_heads(path: Path, name: str) -> None:
    inputs, expected = _load(path)["inputs"], _load(path)["expected"]["relations"][name]
    options = _options(name)
    heads = np.array(inputs["heads"])
    class_sums = _class_sums(inputs)
    values = representations(class_sums, options.representation)
    _agree(cosines(values), expected["cosine"])
    relation = relation_matrix(values, options)
    _agree(relation, expected["relation"])
    _agree(mix(relation, heads), expected["heads"])
    _agree(mix_by_rows(values, heads, options, block_bytes=16), expected["heads"])
    mixed = personalise(class_sums, heads, options)
    _agree(mixed.heads, expected["heads"])
    if options.allows_linear and not (values < 0).any():
        _agree(mix_linear(values, heads), expected["heads"])
        assert not linear_is_cheaper(len(heads), values.shape[1], heads.shape[1])
        assert mixed.form == "matrix"
