"""Ditto against plain torch: FedAvg for the server, and beside it v_k with its penalty in the loss."""

import numpy as np
import pytest
import torch
from torch import Tensor

from secureproto.learning.model import build
from secureproto.simulation.baselines.ditto import Ditto
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites
from support.method_rounds import (
    EXTRACTOR,
    HEAD,
    Loss,
    Weights,
    as_torch,
    assert_close,
    cross_entropy,
    disagreeing,
    federation,
    first_weights,
    logits,
    play,
    slow_mean,
    slow_training,
    uneven_study,
    used,
    weights_of,
    without_class,
)


def held_near(anchor: Weights, lam: float) -> Loss:
    def loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
        distance = torch.stack([((weights[name] - anchor[name]) ** 2).sum() for name in anchor]).sum()
        return cross_entropy(weights, x, y) + lam / 2 * distance

    return loss


def test_two_rounds_against_an_oracle() -> None:
    study, sites, lam = uneven_study(), federation(20, 9), 0.6
    sites["b"] = without_class(sites["b"], 1)
    common = first_weights(study)
    own = dict.fromkeys(sites, common)
    for number in range(2):
        models: dict[str, Weights] = {}
        for site, data in sites.items():
            models[site] = slow_training(common, data.train, study=study, path=(site, number))
            own[site] = slow_training(
                own[site], data.train, study=study, path=(site, number, "personal"), loss=held_near(common, lam)
            )
        common = slow_mean(models, sites, EXTRACTOR | HEAD)
    played = play(Ditto(study, lam=lam), sites, 2)
    assert_close(played.shared, common)
    for site in sites:
        assert_close(played.kept[site], own[site])


def test_what_is_sent_is_fedavg_s_model_and_nothing_of_the_own_one() -> None:
    study, sites = uneven_study(), federation(20, 9)
    found, expected = play(Ditto(study), sites, 2), play(FedAvg(study), sites, 2)
    for number in range(2):
        for site in sites:
            sent = found.sent[number][site].arrays
            assert set(sent) == EXTRACTOR | HEAD
            assert all(np.array_equal(sent[name], expected.sent[number][site].arrays[name]) for name in sent)
    assert not found.personal


def test_a_site_uses_its_own_model_before_and_after_training() -> None:
    study, sites = uneven_study(), federation(20, 9)
    played = play(Ditto(study), sites, 2)
    x, _ = as_torch(sites["b"].test)
    expected = torch.softmax(logits(weights_of(played.kept["b"]), x), dim=1).numpy()
    np.testing.assert_allclose(used(Ditto(study), sites, played, "b"), expected, atol=1e-6)
    np.testing.assert_allclose(played.trained["b"], expected, atol=1e-6)


def test_a_site_starts_from_the_model_it_received_first() -> None:
    study, sites = uneven_study(), federation(20, 9)
    played = play(Ditto(study), sites, 1, chosen=[["a"]])
    x, _ = as_torch(sites["b"].test)
    expected = torch.softmax(logits(weights_of(played.shared), x), dim=1).numpy()
    np.testing.assert_allclose(used(Ditto(study), sites, played, "b"), expected, atol=1e-6)


def test_lam_draws_the_own_model_to_the_common_one() -> None:
    study, sites = uneven_study(), federation(20, 9)

    def distance(lam: float) -> float:
        played = play(Ditto(study, lam=lam), sites, 3)
        common = played.shared
        return float(sum(((played.kept["b"][name] - common[name]) ** 2).sum() for name in common))

    assert distance(0.0) > distance(1.0) > distance(5.0)


def test_steps_are_those_of_both_trainings() -> None:
    study, sites = uneven_study(), federation(20)
    method = Ditto(study)
    update = method.train(build(study), sites["a"], play(method, sites, 0).visit("a"))
    assert update.summary is not None
    assert update.summary.steps == 2 * 2 * 3  # two trainings of two epochs, 20 records in batches of 8


def test_models_of_one_s_own_serve_sites_that_disagree() -> None:
    study, sites = uneven_study(rounds={"total": 6}, training={"local_epochs": 5}), disagreeing(30, 30, 30)
    found = outcomes(Ditto(study, lam=0.1), GivenSites(sites))
    assert min(outcome.received.accuracy for outcome in found.values()) > 0.9


@pytest.mark.parametrize("lam", [-1.0, float("nan"), float("inf")])
def test_a_lam_without_meaning_is_refused(lam: float) -> None:
    with pytest.raises(ValueError, match="lam is a number from 0 on"):
        Ditto(uneven_study(), lam=lam)
