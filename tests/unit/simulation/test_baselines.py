"""The algorithms of a comparison: against slow oracles, against each other, and on sites that disagree."""

from types import ModuleType

import numpy as np
import pytest
import torch

from secureproto.errors import Misconfigured
from secureproto.learning.arrays import load_arrays, to_arrays
from secureproto.learning.dataset import Records
from secureproto.learning.losses import cross_entropy_loss
from secureproto.learning.model import build
from secureproto.learning.seeding import round_generator
from secureproto.learning.training import train
from secureproto.simulation.baselines import fedavg, local, majority, protoaligned
from secureproto.simulation.inprocess import Outcome, SiteData, participants, with_seed
from secureproto.study.schema import StudyFile
from support.learning import blobs, tabular_study

ALGORITHMS = [majority, local, fedavg, protoaligned]


def federation(*sizes: int) -> dict[str, SiteData]:
    return {
        f"site-{i}": SiteData(blobs(size, seed=i), blobs(12, seed=100 + i)) for i, size in enumerate(sizes, start=1)
    }


def relabelled(data: SiteData, shift: int) -> SiteData:
    return SiteData(*(Records(part.x, (part.y + shift) % 3) for part in data))


def trained_once(study: StudyFile, sites: dict[str, SiteData]) -> dict[str, dict[str, np.ndarray[tuple[int, ...]]]]:
    """Each site's weights after its training in round 0."""
    found = {}
    for site, data in sites.items():
        model = build(study)
        generator = round_generator(study, site=site, round_number=0)
        train(model, data.train, training=study.training, loss=cross_entropy_loss(3, 8), generator=generator)
        found[site] = to_arrays(model)
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_equal_runs_are_equal_and_the_order_of_the_sites_does_not_matter(algorithm: ModuleType) -> None:
    study, sites = tabular_study(), federation(20, 9, 14)
    backwards = dict(reversed(sites.items()))
    assert algorithm.run(sites, study) == algorithm.run(backwards, study)


def test_the_seed_moves_the_federation() -> None:
    study, sites = tabular_study(), federation(20, 9)
    weights = [fedavg.train_federation(build(s), sites, s) for s in (study, with_seed(study, 8))]
    assert any(not np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_majority_by_hand() -> None:
    y = np.array([2, 2, 0], dtype=np.int64)
    data = SiteData(Records(np.zeros((3, 4), np.float32), y), Records(np.zeros((4, 4), np.float32), y[[0, 0, 2, 2]]))
    found = majority.run({"north": data}, tabular_study())["north"]
    assert found.received == found.tuned
    assert (found.received.accuracy, found.received.balanced_accuracy) == (0.5, 0.5)


def test_fedavg_is_the_weighted_mean_of_the_sites_models() -> None:
    study, sites = tabular_study(rounds={"total": 1}), federation(20, 9, 14)
    models = trained_once(study, sites)
    found = fedavg.train_federation(build(study), sites, study)
    for name, array in found.items():
        oracle = sum(len(sites[s].train) / 43 * models[s][name].astype(np.float64) for s in sites)
        np.testing.assert_allclose(array, oracle, rtol=1e-6, atol=1e-7)


def test_fedavg_of_one_site_is_that_site_alone() -> None:
    study, sites = tabular_study(), federation(20)
    assert fedavg.run(sites, study) == local.run(sites, study)


def test_one_round_of_the_method_against_an_oracle() -> None:
    relation = {"representation": "prior", "normalisation": "softmax", "temperature": 0.5}
    study, sites = tabular_study(rounds={"total": 1}, relation=relation), federation(20, 9, 14)
    models = trained_once(study, sites)
    shared, heads = protoaligned.train_federation(build(study), sites, study)
    sums, counts, embeddings = {}, {}, build(study)
    for site, data in sites.items():
        load_arrays(embeddings, models[site])
        z = embeddings.extractor(as_torch(data.train.x)).detach().numpy().astype(np.float64)
        sums[site] = np.array([z[data.train.y == j].sum(axis=0) for j in range(3)])
        counts[site] = np.bincount(data.train.y, minlength=3)
    total = sum(counts.values())
    np.testing.assert_allclose(shared["prototypes"], sum(sums.values()) / np.reshape(total, (3, 1)), rtol=1e-6)
    assert shared["prototype_age"].tolist() == [0, 0, 0]
    weight = sum(len(sites[s].train) / 43 * models[s]["extractor.1.weight"].astype(np.float64) for s in sites)
    np.testing.assert_allclose(shared["extractor.1.weight"], weight, rtol=1e-6, atol=1e-7)
    for i in sites:
        cosine = {b: cosine_of(sums[i], sums[b]) for b in sites}
        scale = sum(np.exp(value / 0.5) for value in cosine.values())
        head = sum(np.exp(cosine[b] / 0.5) / scale * models[b]["head.weight"] for b in sites)
        np.testing.assert_allclose(heads[i]["head.weight"], head, rtol=1e-5, atol=1e-6)


def cosine_of(a: np.ndarray[tuple[int, ...]], b: np.ndarray[tuple[int, ...]]) -> float:
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


def as_torch(x: np.ndarray[tuple[int, ...]]) -> torch.Tensor:
    return torch.tensor(x)


def test_a_site_outside_the_round_keeps_its_head() -> None:
    study = tabular_study(rounds={"total": 1, "participation": 0.5, "quorum": 1})
    sites = federation(20, 9)
    (inside,) = participants(study, sites, 0)
    (outside,) = sites.keys() - {inside}
    _, heads = protoaligned.train_federation(build(study), sites, study)
    first = to_arrays(build(study).head)
    assert np.array_equal(heads[outside]["head.weight"], first["weight"])
    assert not np.array_equal(heads[inside]["head.weight"], first["weight"])


def test_where_sites_disagree_a_head_of_one_s_own_wins() -> None:
    relation = {"normalisation": "softmax", "temperature": 0.05}
    study = tabular_study(
        training={"local_epochs": 5, "alignment_weight": 0.1}, rounds={"total": 10}, relation=relation
    )
    sites = {site: relabelled(data, i) for i, (site, data) in enumerate(sorted(federation(60, 60, 60).items()))}

    def received(found: dict[str, Outcome]) -> float:
        return float(np.mean([outcome.received.accuracy for outcome in found.values()]))

    assert received(fedavg.run(sites, study)) < 0.6
    assert received(protoaligned.run(sites, study)) > 0.9


def test_the_method_stops_when_the_loss_has_converged() -> None:
    stopping = {"relative_tolerance": 0.999, "patience": 1}
    long, short = (tabular_study(stopping=stopping, rounds={"total": total}) for total in (9, 2))
    sites = federation(20, 9)
    stopped = protoaligned.train_federation(build(long), sites, long)[0]
    two_rounds = protoaligned.train_federation(build(short), sites, short)[0]
    nine_rounds = protoaligned.train_federation(build(long), sites, tabular_study(rounds={"total": 9}))[0]
    assert all(np.array_equal(stopped[name], two_rounds[name]) for name in stopped)
    assert any(not np.array_equal(stopped[name], nine_rounds[name]) for name in stopped)


def test_the_warm_up_counts_the_rounds() -> None:
    sites = federation(20, 9)

    def extractor(warmup: int) -> bytes:
        study = tabular_study(training={"alignment_warmup_rounds": warmup})
        return protoaligned.train_federation(build(study), sites, study)[0]["extractor.1.weight"].tobytes()

    assert extractor(0) == extractor(1)  # round 0 has no prototypes, and from round 1 on all of the weight counts
    assert extractor(1) != extractor(2)


def test_participants_are_a_share_but_never_fewer_than_the_quorum() -> None:
    sites = [f"site-{i}" for i in range(10)]

    def drawn(number: int, **rounds: float) -> list[str]:
        return participants(tabular_study(rounds=rounds), sites, number)

    assert drawn(0) == sites
    assert len(drawn(0, participation=0.31)) == 4
    assert len(drawn(0, participation=0.1, quorum=3)) == 3
    assert drawn(1, participation=0.3) == drawn(1, participation=0.3)
    assert len({tuple(drawn(number, participation=0.3)) for number in range(8)}) > 4


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_sites_without_records_are_named(algorithm: ModuleType) -> None:
    run = algorithm.run
    full, empty = blobs(6), blobs(0)
    with pytest.raises(Misconfigured, match="no sites"):
        run({}, tabular_study())
    with pytest.raises(Misconfigured, match="site b has no training records"):
        run({"a": SiteData(full, full), "b": SiteData(empty, full)}, tabular_study())
    with pytest.raises(Misconfigured, match="site a has no test records"):
        run({"a": SiteData(full, empty)}, tabular_study())
