"""The method: one round against a slow oracle, and what it promises over FedAvg where sites disagree."""

import numpy as np
import torch
from numpy.typing import NDArray

from secureproto.learning.arrays import load_arrays, to_arrays
from secureproto.learning.model import build
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.history import RECEIVED
from secureproto.simulation.method import Method
from secureproto.simulation.population import GivenSites
from secureproto.simulation.run import participants
from support.learning import tabular_study
from support.method_rounds import disagreeing, federation
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
