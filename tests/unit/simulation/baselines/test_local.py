"""Own data only: a site's model is what its own records make of the first weights, round after round."""

from itertools import pairwise

import numpy as np

from secureproto.simulation.baselines.local import Local
from secureproto.simulation.history import RECEIVED, TUNED
from secureproto.simulation.population import GivenSites
from support.learning import tabular_study
from support.method_rounds import assert_close, federation, first_weights, play, slow_training, uneven_study
from support.simulated import ended


def test_three_rounds_against_an_oracle() -> None:
    study, sites = uneven_study(rounds={"total": 3}), federation(20, 9)
    found = ended(Local(study), GivenSites(sites))
    for site, data in sites.items():
        weights = first_weights(study)
        for number in range(3):
            weights = slow_training(weights, data.train, study=study, path=(site, number))
        assert_close(found.kept[site], weights)


def test_nothing_is_sent_and_the_others_do_not_matter() -> None:
    study, sites = tabular_study(), federation(20, 9)
    together, alone = play(Local(study), sites, 2), play(Local(study), {"b": sites["b"]}, 2)
    assert all(sent.arrays == {} for sent in together.sent[0].values())
    for name, array in alone.kept["b"].items():
        assert np.array_equal(together.kept["b"][name], array)


def test_what_a_site_has_received_is_what_it_trained_in_the_round_before() -> None:
    records = ended(Local(tabular_study()), GivenSites(federation(20, 9))).history.rounds
    for before, after in pairwise(records):
        for site, found in before.sites.items():
            assert found.points[TUNED] == after.sites[site].points[RECEIVED]
