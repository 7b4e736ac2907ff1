"""FedProx against its objective by automatic differentiation: the penalty stands in the loss, not in the gradient."""

import numpy as np
import pytest
import torch
from torch import Tensor

from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.fedprox import FedProx
from support.method_rounds import (
    EXTRACTOR,
    HEAD,
    Loss,
    Weights,
    assert_close,
    cross_entropy,
    federation,
    first_weights,
    play,
    slow_mean,
    slow_training,
    uneven_study,
)


def penalised(anchor: Weights, mu: float) -> Loss:
    def loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
        distance = sum(((weights[name] - anchor[name]) ** 2).sum() for name in anchor)
        return cross_entropy(weights, x, y) + mu / 2 * distance

    return loss


def test_two_rounds_are_those_of_eq_2() -> None:
    study, sites, mu = uneven_study(), federation(20, 9), 0.7
    common = first_weights(study)
    for number in range(2):
        models = {
            site: slow_training(common, data.train, study=study, path=(site, number), loss=penalised(common, mu))
            for site, data in sites.items()
        }
        common = slow_mean(models, sites, EXTRACTOR | HEAD)
    assert_close(play(FedProx(study, mu=mu), sites, 2).shared, common)


def test_without_mu_it_is_fedavg_to_the_last_bit() -> None:
    study, sites = uneven_study(), federation(20, 9)
    found, expected = (play(method, sites, 2).shared for method in (FedProx(study, mu=0.0), FedAvg(study)))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_mu_holds_a_site_near_what_it_received() -> None:
    study, sites = uneven_study(), federation(20)

    def moved(mu: float) -> float:
        found = play(FedProx(study, mu=mu), sites, 1).shared
        return float(sum(((torch.tensor(found[n]) - w) ** 2).sum() for n, w in first_weights(study).items()))

    assert moved(0.0) > moved(1.0) > moved(5.0)


def test_the_whole_model_is_sent_and_nothing_else() -> None:
    study, sites = uneven_study(), federation(20, 9)
    played = play(FedProx(study), sites, 1)
    for site, sent in played.sent[0].items():
        assert set(sent.arrays) == EXTRACTOR | HEAD
        assert sent.records == len(sites[site].train)
    assert not played.kept


@pytest.mark.parametrize("mu", [-0.1, float("nan"), float("inf")])
def test_a_mu_without_meaning_is_refused(mu: float) -> None:
    with pytest.raises(ValueError, match="mu is a number from 0 on"):
        FedProx(uneven_study(), mu=mu)
