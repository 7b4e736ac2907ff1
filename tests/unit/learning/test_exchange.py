"""A site's part in a round: it fits the wire's layouts, repeats itself, and refuses what is not the study's model."""

from typing import Any

import numpy as np
import pytest

from secureproto.errors import Misconfigured
from secureproto.learning.exchange import ArrayMap, Received, initial_arrays, receive, site_round
from secureproto.learning.model import build, model_schema, to_arrays
from secureproto.learning.prototypes import class_sums
from secureproto.learning.seeding import round_generator
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import head_schema, shared_schema, upload_schema
from secureproto.wire.tensors import encode, read_all
from support.learning import blobs, tabular_study


def take_part(study: StudyFile, shared: ArrayMap, head: ArrayMap, number: int = 0) -> dict[str, Any]:
    generator = round_generator(study, site="north", round_number=number)
    received = Received(number, shared, head)
    return site_round(build(study), blobs(20), study=study, received=received, generator=generator).arrays


def test_everything_fits_the_layouts_and_survives_the_wire() -> None:
    for study in (tabular_study(), tabular_study(stopping={"relative_tolerance": 0.1, "patience": 1})):
        model = build(study)
        schema = model_schema(model, study)
        shared, head = initial_arrays(model)
        upload = take_part(study, shared, head)
        for layout, arrays in (
            (shared_schema(schema), shared),
            (head_schema(schema), head),
            (upload_schema(schema), upload),
        ):
            read = read_all(layout, b"".join(encode(layout, arrays)))
            assert all(np.array_equal(read[name], arrays[name]) for name in arrays)
        assert ("loss" in upload) == (study.stopping is not None)


def test_the_first_version_is_the_study_s_model_and_no_prototype() -> None:
    study = tabular_study()
    shared, head = initial_arrays(build(study))
    other = build(tabular_study(model={"seed": 99}))
    assert not receive(other, shared, head).present.any()
    expected = to_arrays(build(study))
    assert all(np.array_equal(array, expected[name]) for name, array in to_arrays(other).items())


def test_class_sums_are_those_of_the_trained_extractor() -> None:
    study = tabular_study()
    model = build(study)
    shared, head = initial_arrays(model)
    before = class_sums(model, blobs(20), 3)
    upload = take_part(study, shared, head)
    layer = {name.removeprefix("extractor."): a for name, a in upload.items() if name.startswith("extractor.")}
    assert not np.array_equal(upload["prototypes"], before)
    np.testing.assert_allclose(
        upload["prototypes"][:, :-1],
        [
            np.maximum(blobs(20).x[blobs(20).y == j] @ layer["1.weight"].T + layer["1.bias"], 0).sum(axis=0)
            for j in range(3)
        ],
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_round_done_again_gives_the_same_bytes_and_another_round_others() -> None:
    study = tabular_study()
    shared, head = initial_arrays(build(study))
    first, again, next_round = (take_part(study, shared, head, number) for number in (0, 0, 1))
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert any(first[name].tobytes() != next_round[name].tobytes() for name in first)


def test_prototypes_that_were_sent_pull_the_embeddings() -> None:
    study = tabular_study(training={"local_epochs": 100})
    shared, head = initial_arrays(build(study))
    pulled = {**shared, "prototypes": np.full((3, 8), 0.7), "prototype_age": np.zeros(3, dtype=np.int64)}

    def distance(sent: ArrayMap) -> float:
        sums = take_part(study, sent, head)["prototypes"]
        return float(np.square(sums[:, :-1] / sums[:, -1:] - 0.7).mean())

    assert distance(pulled) < 0.5 * distance(shared)


@pytest.mark.parametrize(
    "change",
    [
        {"prototypes": np.zeros((3, 7))},
        {"prototype_age": np.zeros(4, dtype=np.int64)},
        {"extractor.1.bias": np.zeros(9, dtype=np.float32)},
        {"extractor.more": np.zeros(1, dtype=np.float32)},
    ],
)
def test_what_is_not_the_study_s_model_is_refused(change: dict[str, Any]) -> None:
    model = build(tabular_study())
    shared, head = initial_arrays(model)
    with pytest.raises(Misconfigured, match="does not fit the study"):
        receive(model, {**shared, **change}, head)


def test_prototypes_that_are_missing_are_refused() -> None:
    model = build(tabular_study())
    shared, head = initial_arrays(model)
    del shared["prototypes"]
    with pytest.raises(Misconfigured, match="prototypes"):
        receive(model, shared, head)
