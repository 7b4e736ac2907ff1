"""Pooled data: one model, trained on the records of all who take part as if they lay together."""

import numpy as np
import pytest

from secureproto.learning.dataset import Records
from secureproto.simulation.baselines.pooled import Pooled
from secureproto.simulation.history import RECEIVED, TUNED
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.simulation.run import RunOptions
from support.learning import tabular_study
from support.method_rounds import assert_close, federation, first_weights, slow_training, uneven_study
from support.simulated import ended


def together(sites: dict[str, SiteData]) -> Records:
    parts = [sites[site].train for site in sorted(sites)]
    return Records(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


def test_three_rounds_against_an_oracle() -> None:
    study, sites = uneven_study(rounds={"total": 3}), federation(20, 9)
    weights = first_weights(study)
    for number in range(3):
        weights = slow_training(weights, together(sites), study=study, path=("pooled", number))
    assert_close(ended(Pooled(study), GivenSites(sites)).shared, weights)


def test_steps_are_those_of_all_sites() -> None:
    sites = federation(20, 9)
    by_steps = uneven_study(rounds={"total": 1}, training={"local_epochs": None, "local_steps": 4})
    # 29 records in batches of 8: an epoch is four steps
    by_epochs = uneven_study(rounds={"total": 1}, training={"local_epochs": 2})
    found = [ended(Pooled(study), GivenSites(sites)).shared for study in (by_steps, by_epochs)]
    assert all(found[0][name].tobytes() == found[1][name].tobytes() for name in found[0])


def test_all_records_are_learned_from_in_every_round_though_a_round_invites_few() -> None:
    sites = federation(20, 9, 14, 7)
    few, all_of_them = (
        ended(Pooled(uneven_study(rounds={"total": 2, "participation": share, "quorum": 1})), GivenSites(sites))
        for share in (0.25, 1.0)
    )
    assert all(few.shared[name].tobytes() == all_of_them.shared[name].tobytes() for name in few.shared)
    assert set(few.history.rounds[0].sites) == set(sites)


def test_the_records_leave_a_site_once_and_no_site_trains_further() -> None:
    sites = federation(20, 9)
    first, second, last = ended(Pooled(tabular_study(rounds={"total": 2})), GivenSites(sites)).history.rounds
    for site, data in sites.items():
        assert first.sites[site].bytes_sent == data.train.x.nbytes + data.train.y.nbytes
        assert (second.sites[site].bytes_sent, last.sites[site].bytes_sent) == (0, 0)
        assert last.sites[site].points[RECEIVED] == last.sites[site].points[TUNED]


@pytest.mark.parametrize("rate", [1e30, 1e8])
def test_it_may_diverge(rate: float) -> None:
    study = tabular_study(rounds={"total": 2}, training={"learning_rate": rate, "local_epochs": 3})
    assert str(ended(Pooled(study), GivenSites(federation(20, 9))).history.failure).startswith(
        "diverged in round 0: "
    )


def test_a_factory_is_built_where_it_may_run() -> None:
    study = tabular_study(model={"name": "support.tiny_model:factory"}, rounds={"total": 1})
    options = RunOptions(allowed_factories=(study.model.name,))
    assert ended(Pooled(study), GivenSites(federation(20, 9)), options=options).history.complete
