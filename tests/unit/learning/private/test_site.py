"""A site's private part in a round: what leaves, what it costs, and that nothing else does."""

import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch

from secureproto.governance.plan import events_of_round
from secureproto.learning.arrays import to_arrays
from secureproto.learning.dataset import Records
from secureproto.learning.exchange import Received, initial_arrays
from secureproto.learning.model import build, model_schema
from secureproto.learning.private.site import (
    Chance,
    PrivateContribution,
    class_sums,
    private_site_round,
    prototype_grid,
)
from secureproto.privacy.events import Gaussian, SampledGaussian, Unprotected
from secureproto.simulation.chance import simulated_chance
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import PROTOTYPES, upload_schema
from support.learning import blobs, tabular_study, torch_generator
from support.private_study import private_study


def round_of(
    study: StudyFile, records: int = 40, *, number: int = 0, chance: Chance | None = None
) -> PrivateContribution:
    model = build(study)
    received = Received(number, *initial_arrays(model))
    return private_site_round(
        model, blobs(records), study=study, received=received, generator=torch_generator(), chance=chance
    )


@pytest.mark.parametrize("number", [0, 1, 4, 5])
def test_what_leaves_is_what_the_plan_charges(number: int) -> None:
    study = private_study(release_every=5)
    assert study.privacy is not None
    assert round_of(study, number=number).events == events_of_round(study.privacy, number)


def test_the_upload_has_one_shape_whatever_the_site_holds() -> None:
    study = private_study()
    schema = upload_schema(model_schema(build(study), study))
    for records in (40, 1, 0):  # blobs of one record hold one class of three
        arrays = round_of(study, records).arrays
        assert {t.name: t.shape for t in schema.tensors} == {name: a.shape for name, a in arrays.items()}
        assert (arrays[PROTOTYPES] != 0).any(axis=1).all()  # noise on every class, held or not


def test_without_a_release_there_are_zeros_and_no_charge_for_one() -> None:
    found = round_of(private_study(release_every=5), number=3)
    assert not found.arrays[PROTOTYPES].any()
    assert [type(event) for event in found.events] == [SampledGaussian]


def test_training_without_protection_is_said_to_be() -> None:
    found = round_of(private_study(privacy={"training": None}))
    assert found.events == (Unprotected(), Gaussian(0.05))


def test_noise_is_another_each_time_and_no_seed_of_torch_decides_it() -> None:
    first, second = (round_of(private_study()).arrays for _ in range(2))
    for name in first:
        assert not np.array_equal(first[name], second[name]), name


def test_a_simulated_site_draws_the_same_again_and_another_site_does_not() -> None:
    study = private_study()

    def drawn(site: str, number: int) -> dict[str, bytes]:
        chance = simulated_chance(study, site=site, round_number=number)
        arrays = round_of(study, number=number, chance=chance).arrays
        return {name: array.tobytes() for name, array in arrays.items()}

    assert drawn("a", 0) == drawn("a", 0)
    for other in (drawn("b", 0), drawn("a", 1)):
        assert all(other[name] != one for name, one in drawn("a", 0).items())


def test_what_could_be_foreseen_protects_nothing() -> None:
    study = private_study()
    chance = simulated_chance(study, site="a", round_number=0)
    assert round_of(study, chance=chance).events == (Unprotected(), Unprotected())
    assert round_of(study, chance=Chance(sampler=chance.sampler)).events[0] == Unprotected()


def test_the_simulated_noise_has_the_plans_size() -> None:
    study = private_study(prototype_noise=3.0, model={"embedding_width": 64})
    chance = simulated_chance(study, site="a", round_number=0)
    assert chance.grid_noise is not None
    assert chance.noise is not None
    noise = chance.grid_noise(np.zeros((100, 100), dtype=np.int64), 5e6)
    assert float(noise.std()) == pytest.approx(5e6, rel=0.03)
    assert float(chance.noise.take(10_000).std()) == pytest.approx(1.0, rel=0.03)
    assert chance.sampler is not None
    drawn = [len(chance.sampler.draw(1000, 0.2)) for _ in range(100)]
    assert float(np.mean(drawn)) == pytest.approx(200, rel=0.03)


def test_a_study_without_privacy_has_no_private_round() -> None:
    with pytest.raises(ValueError, match=r"without \[privacy\]"):
        round_of(tabular_study())


def test_nothing_of_the_records_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        round_of(private_study())
    assert [record.message for record in caplog.records if "secureproto" in record.name] == []


@pytest.mark.parametrize("change", [lambda x: x * np.nan, lambda x: x * 1e30], ids=["nan", "huge"])
def test_a_bad_record_stops_nothing(change: Callable[[np.ndarray], np.ndarray]) -> None:
    study, data = private_study(), blobs(30)
    data.x[3] = change(data.x[3])
    model = build(study)
    received = Received(0, *initial_arrays(model))
    found = private_site_round(model, data, study=study, received=received, generator=torch_generator())
    assert all(np.isfinite(array).all() for array in found.arrays.values())
    assert all(np.isfinite(array).all() for array in to_arrays(model).values())


def test_a_record_that_the_model_fails_on_is_left_out_of_the_sums_alone() -> None:
    study, data = private_study(), blobs(30)
    model = build(study)
    grid = prototype_grid(study, study.privacy, 8) if study.privacy else None
    assert grid is not None
    without = class_sums(model, Records(np.delete(data.x, 3, 0), np.delete(data.y, 3)), grid)
    data.x[3] = 7.0

    def fail(_: object, inputs: tuple[torch.Tensor, ...]) -> None:
        if bool((inputs[0] == 7.0).any()):
            raise RuntimeError("7.0")

    model.extractor.register_forward_pre_hook(fail)
    found = class_sums(model, data, grid).release(without_noise_for_tests_only=True).matrix
    np.testing.assert_allclose(found, without.release(without_noise_for_tests_only=True).matrix, atol=2)
