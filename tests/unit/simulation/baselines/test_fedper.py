"""FedPer: base layers averaged, personalisation layers at their site, against plain torch."""

import numpy as np
import torch

from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.fedper import FedPer
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites
from support.method_rounds import (
    EXTRACTOR,
    HEAD,
    as_torch,
    assert_close,
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


def test_two_rounds_against_an_oracle() -> None:
    study, sites = uneven_study(), federation(20, 9)
    sites["b"] = without_class(sites["b"], 1)
    first = first_weights(study)
    base = {name: first[name] for name in EXTRACTOR}
    heads = {site: {name: first[name] for name in HEAD} for site in sites}
    for number in range(2):
        models = {
            site: slow_training({**base, **heads[site]}, data.train, study=study, path=(site, number))
            for site, data in sites.items()
        }
        base = slow_mean(models, sites, EXTRACTOR)
        heads = {site: {name: models[site][name] for name in HEAD} for site in sites}
    played = play(FedPer(study), sites, 2)
    assert_close(played.shared, base)
    for site in sites:
        assert_close(played.kept[site], heads[site])


def test_the_extractor_is_sent_and_nothing_else() -> None:
    study, sites = uneven_study(), federation(20, 9)
    played = play(FedPer(study), sites, 2)
    for sent in (*played.sent[0].values(), *played.sent[1].values()):
        assert set(sent.arrays) == EXTRACTOR
    assert set(played.shared) == EXTRACTOR
    assert all(set(kept) == HEAD for kept in played.kept.values())
    assert not played.personal


def test_a_site_uses_the_common_extractor_with_its_own_head() -> None:
    study, sites = uneven_study(), federation(20, 9)
    played = play(FedPer(study), sites, 2)
    assert not np.allclose(played.kept["a"]["head.weight"], played.kept["b"]["head.weight"])
    x, _ = as_torch(sites["b"].test)
    expected = torch.softmax(logits(weights_of({**played.shared, **played.kept["b"]}), x), dim=1)
    np.testing.assert_allclose(used(FedPer(study), sites, played, "b"), expected.numpy(), atol=1e-6)


def test_a_site_that_never_trained_has_the_first_head() -> None:
    study, sites = uneven_study(), federation(20, 9)
    played = play(FedPer(study), sites, 1, chosen=[["a"]])
    assert "b" not in played.kept
    assert_close(played.visit("b").personal, {name: first_weights(study)[name] for name in HEAD})
    assert used(FedPer(study), sites, played, "b").shape == (12, 3)


def test_one_site_alone_is_fedavg() -> None:
    study, sites = uneven_study(), federation(20)
    played = play(FedPer(study), sites, 3)
    expected = play(FedAvg(study), sites, 3).shared
    for name, array in {**played.shared, **played.kept["a"]}.items():
        np.testing.assert_array_equal(array, expected[name])


def test_heads_of_one_s_own_serve_sites_that_disagree() -> None:
    study, sites = uneven_study(rounds={"total": 6}, training={"local_epochs": 5}), disagreeing(30, 30, 30)
    found = outcomes(FedPer(study), GivenSites(sites))
    assert min(outcome.received.accuracy for outcome in found.values()) > 0.9
    common = outcomes(FedAvg(study), GivenSites(sites))
    assert max(outcome.received.accuracy for outcome in common.values()) < 0.9
