"""The method: one round against a slow oracle, and what it promises over FedAvg where sites disagree."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from secureproto.errors import BudgetExhausted, Misconfigured
from secureproto.governance.plan import plan_of
from secureproto.learning.arrays import load_arrays, to_arrays
from secureproto.learning.model import build
from secureproto.simulation.baselines.catalogue import make
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.history import RECEIVED, TUNED
from secureproto.simulation.method import Method
from secureproto.simulation.population import GivenSites
from secureproto.simulation.run import participants
from support.learning import tabular_study
from support.method_rounds import disagreeing, federation
from support.private_study import private_study
from support.simulated import ended, trained_once


def cosine_of(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


def test_one_round_against_an_oracle() -> None:
    relation = {"representation": "prior", "normalisation": "softmax", "temperature": 0.5}
    study, sites = tabular_study(rounds={"total": 1}, relation=relation), federation(20, 9, 14)
    models = trained_once(study, sites)
    found = ended(ProtoAligned(study), GivenSites(sites))
    sums, counts, embeddings = {}, {}, build(study)
    for site, data in sites.items():
        load_arrays(embeddings, models[site])
        z = embeddings.extractor(torch.tensor(data.train.x)).detach().numpy().astype(np.float64)
        sums[site] = np.array([z[data.train.y == j].sum(axis=0) for j in range(3)])
        counts[site] = np.bincount(data.train.y, minlength=3)
    total = sum(counts.values())
    np.testing.assert_allclose(found.shared["prototypes"], sum(sums.values()) / np.reshape(total, (3, 1)), rtol=1e-6)
    assert found.shared["prototype_age"].tolist() == [0, 0, 0]
    weight = sum(len(sites[s].train) / 43 * models[s]["extractor.1.weight"].astype(np.float64) for s in sites)
    np.testing.assert_allclose(found.shared["extractor.1.weight"], weight, rtol=1e-6, atol=1e-7)
    relations = found.history.rounds[0].relation
    assert relations is not None
    for i, row in zip(sites, relations, strict=True):
        cosine = {b: cosine_of(sums[i], sums[b]) for b in sites}
        scale = sum(np.exp(value / 0.5) for value in cosine.values())
        shares = {b: np.exp(cosine[b] / 0.5) / scale for b in sites}
        head = sum(shares[b] * models[b]["head.weight"] for b in sites)
        np.testing.assert_allclose(found.personal[i]["head.weight"], head, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(row, list(shares.values()), atol=1e-6)


def test_a_site_outside_the_round_keeps_its_head() -> None:
    study = tabular_study(rounds={"total": 1, "participation": 0.5, "quorum": 1})
    sites = federation(20, 9)
    (inside,) = participants(study, sites, 0)
    (outside,) = sites.keys() - {inside}
    heads = ended(ProtoAligned(study), GivenSites(sites)).personal
    first = to_arrays(build(study).head)
    assert np.array_equal(heads[outside]["head.weight"], first["weight"])
    assert not np.array_equal(heads[inside]["head.weight"], first["weight"])


def test_where_sites_disagree_a_head_of_one_s_own_wins() -> None:
    relation = {"normalisation": "softmax", "temperature": 0.05}
    study = tabular_study(
        training={"local_epochs": 5, "alignment_weight": 0.1}, rounds={"total": 10}, relation=relation
    )
    sites = GivenSites(disagreeing(60, 60, 60))

    def received(method: Method) -> float:
        return float(np.mean([found.accuracy for found in ended(method, sites).scores(RECEIVED).values()]))

    assert received(FedAvg(study)) < 0.6
    assert received(ProtoAligned(study)) > 0.9


def test_it_stops_when_the_loss_has_converged() -> None:
    stopping, sites = {"relative_tolerance": 0.999, "patience": 1}, GivenSites(federation(20, 9))
    long, short = (tabular_study(stopping=stopping, rounds={"total": total}) for total in (9, 2))
    stopped, two_rounds, nine_rounds = (
        ended(ProtoAligned(study), sites).shared for study in (long, short, tabular_study(rounds={"total": 9}))
    )
    assert all(np.array_equal(stopped[name], two_rounds[name]) for name in stopped)
    assert any(not np.array_equal(stopped[name], nine_rounds[name]) for name in stopped)


def test_the_warm_up_counts_the_rounds() -> None:
    sites = GivenSites(federation(20, 9))

    def extractor(warmup: int) -> bytes:
        study = tabular_study(training={"alignment_warmup_rounds": warmup})
        return ended(ProtoAligned(study), sites).shared["extractor.1.weight"].tobytes()

    assert extractor(0) == extractor(1)  # round 0 has no prototypes, and from round 1 on all of the weight counts
    assert extractor(1) != extractor(2)


def test_privacy_costs_little_with_little_noise_and_everything_with_much() -> None:
    sites = GivenSites(federation(60, 60, 60))

    def received(method: Method) -> float:
        return float(np.mean([found.accuracy for found in ended(method, sites).scores(RECEIVED).values()]))

    rounds = {"total": 8}
    assert received(ProtoAligned(private_study(rounds=rounds))) > 0.9
    loud = private_study(noise=100.0, prototype_noise=100.0, rounds=rounds)
    assert received(ProtoAligned(loud)) < 0.7
    assert received(ProtoAligned(loud, privacy="off")) > 0.9


def test_a_private_run_done_again_gives_the_same_numbers_and_another_seed_others() -> None:
    sites = GivenSites(federation(30, 20, 30))
    first, again = (ended(ProtoAligned(private_study()), sites).shared for _ in range(2))
    assert {name: array.tobytes() for name, array in first.items()} == {n: a.tobytes() for n, a in again.items()}
    other = ended(ProtoAligned(private_study(model={"seed": 8})), sites).shared
    assert not np.array_equal(first["prototypes"], other["prototypes"])


def test_prototypes_are_renewed_only_in_the_rounds_that_release_them() -> None:
    sites = GivenSites(federation(30, 20, 30))
    for total, age in ((1, 0), (2, 1), (5, 1)):
        study = private_study(release_every=3, rounds={"total": total}, prototypes={"min_holders": 1})
        assert ended(ProtoAligned(study), sites).shared["prototype_age"].tolist() == [age] * 3


def test_an_epsilon_becomes_the_noise_that_all_rounds_together_cost_it() -> None:
    method = ProtoAligned(private_study(rounds={"total": 7}), epsilon=3.0)
    assert method.study.privacy is not None
    cost = plan_of(method.study.privacy, 7).total.rdp_epsilon
    assert 2.9 < cost <= 3.0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"privacy": "perhaps"}, "privacy is on or off"),
        ({"epsilon": -1.0}, "epsilon is over 0"),
        ({"epsilon": 20_000.0}, "up to 10000"),
        ({"epsilon": 1.0, "privacy": "off"}, "cannot both be"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, str | float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ProtoAligned(private_study(), **settings)  # type: ignore[arg-type]


def test_an_epsilon_needs_something_to_noise_and_enough_of_it() -> None:
    with pytest.raises(ValueError, match=r"\[privacy.training\]"):
        ProtoAligned(tabular_study(), epsilon=1.0)
    with pytest.raises(BudgetExhausted, match="no noise keeps epsilon"):
        ProtoAligned(private_study(), epsilon=1e-7)


@pytest.mark.parametrize(
    "spec", ["representation=presence", "weighting=uniform", "normalisation=row_sum:form=linear"]
)
def test_what_a_private_study_excludes_no_spec_brings_back(spec: str) -> None:
    with pytest.raises(Misconfigured, match=r"with \[privacy\]"):
        make(f"protoaligned:{spec}", private_study())
    assert make(f"protoaligned:privacy=off:{spec}", private_study()) is not None


def test_after_the_last_round_a_site_trains_for_itself_without_noise() -> None:
    sites = GivenSites(federation(60, 60, 60))
    study = private_study(rounds={"total": 2}, training={"local_epochs": 20})
    assert study.privacy is not None
    assert study.privacy.training is not None
    still = study.privacy.training.model_copy(update={"learning_rate": 1e-9})  # all that is learned is learned after
    study = study.model_copy(update={"privacy": study.privacy.model_copy(update={"training": still})})
    found = ended(ProtoAligned(study), sites)
    assert float(np.mean([one.accuracy for one in found.scores(RECEIVED).values()])) < 0.7
    assert float(np.mean([one.accuracy for one in found.scores(TUNED).values()])) > 0.9
