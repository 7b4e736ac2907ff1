"""FedAvg: w_{t+1} = Σ_k (n_k / n) w_{t+1}^k, against sites trained one by one and against plain torch."""

import numpy as np

from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites
from secureproto.simulation.run import with_seed
from support.learning import tabular_study
from support.method_rounds import (
    EXTRACTOR,
    HEAD,
    assert_close,
    federation,
    first_weights,
    play,
    slow_mean,
    slow_training,
    uneven_study,
)
from support.simulated import ended, trained_once


def test_the_weighted_mean_of_the_sites_models() -> None:
    study, sites = tabular_study(rounds={"total": 1}), federation(20, 9, 14)
    models = trained_once(study, sites)
    for name, array in ended(FedAvg(study), GivenSites(sites)).shared.items():
        oracle = sum(len(sites[s].train) / 43 * models[s][name].astype(np.float64) for s in sites)
        np.testing.assert_allclose(array, oracle, rtol=1e-6, atol=1e-7)


def test_two_rounds_against_an_oracle() -> None:
    study, sites = uneven_study(rounds={"total": 2}), federation(20, 9)
    weights = first_weights(study)
    for number in range(2):
        models = {
            site: slow_training(weights, data.train, study=study, path=(site, number)) for site, data in sites.items()
        }
        weights = slow_mean(models, sites, EXTRACTOR | HEAD)
    assert_close(ended(FedAvg(study), GivenSites(sites)).shared, weights)


def test_of_one_site_it_is_that_site_alone() -> None:
    study, sites = tabular_study(), GivenSites(federation(20))
    assert outcomes(FedAvg(study), sites) == outcomes(Local(study), sites)


def test_the_seed_moves_the_federation() -> None:
    study, sites = tabular_study(), GivenSites(federation(20, 9))
    one, other = (ended(FedAvg(s), sites).shared for s in (study, with_seed(study, 8)))
    assert any(not np.array_equal(one[name], other[name]) for name in one)


def test_a_site_that_does_not_take_part_has_no_say() -> None:
    study, sites = tabular_study(), federation(20, 9, 14)
    chosen = play(FedAvg(study), sites, 1, chosen=[["a", "c"]])
    alone = play(FedAvg(study), {site: sites[site] for site in "ac"}, 1)
    assert all(np.array_equal(chosen.shared[name], alone.shared[name]) for name in alone.shared)


def test_the_whole_model_is_sent_and_nothing_is_kept() -> None:
    played = play(FedAvg(tabular_study()), federation(20, 9), 1)
    assert all(set(sent.arrays) == EXTRACTOR | HEAD for sent in played.sent[0].values())
    assert {site: sent.records for site, sent in played.sent[0].items()} == {"a": 20, "b": 9}
    assert not played.kept
    assert not played.personal
