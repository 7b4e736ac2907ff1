"""FedProto's formulas against plain loops: local prototypes, eq. 6, the loss of eq. 7, and inference."""

import numpy as np
import pytest
import torch
from torch import Tensor

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.learning.arrays import load_arrays
from secureproto.learning.evaluate import score
from secureproto.learning.model import build
from secureproto.learning.training import Diverged
from secureproto.simulation.baselines.fedproto import FedProto, nearest_prototype
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
    embed,
    federation,
    first_weights,
    logits,
    play,
    slow_training,
    uneven_study,
    used,
    weights_of,
    without_class,
)

Prototypes = dict[int, Tensor]


def aligned(prototypes: Prototypes, lam: float) -> Loss:
    """L_S + λ · L_R: the mean over records and entries of (f(x) − C̄^(y))², record by record."""

    def loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
        z, total = embed(weights, x), torch.zeros((), dtype=torch.float64)
        for embedding, label in zip(z, y.tolist(), strict=True):
            if label in prototypes:
                total = total + ((embedding - prototypes[label]) ** 2).mean()
        return cross_entropy(weights, x, y) + lam * total / len(y)

    return loss


def test_two_rounds_against_an_oracle() -> None:
    study, sites, lam = uneven_study(), federation(20, 9), 0.8
    sites["b"] = without_class(sites["b"], 1)
    own, prototypes = dict.fromkeys(sites, first_weights(study)), Prototypes()
    for number in range(2):
        sums: dict[int, list[tuple[int, Tensor]]] = {0: [], 1: [], 2: []}
        for site, data in sites.items():
            loss = aligned(prototypes, lam)
            own[site] = slow_training(own[site], data.train, study=study, path=(site, number), loss=loss)
            x, y = as_torch(data.train)
            for label in set(y.tolist()):
                local = torch.stack([embed(own[site], row[None])[0] for row in x[y == label]]).mean(dim=0)
                sums[label].append((int((y == label).sum()), local))
        for label, parts in sums.items():
            everywhere = sum(count for count, _ in parts)
            prototypes[label] = torch.stack([count / everywhere * local for count, local in parts]).sum(dim=0)
    played = play(FedProto(study, lam=lam), sites, 2)
    expected = torch.stack([prototypes[label] for label in range(3)]).numpy()
    np.testing.assert_allclose(played.shared["prototypes"], expected, rtol=2e-4, atol=2e-5)
    assert played.shared["prototype_age"].tolist() == [0, 0, 0]
    for site in sites:
        assert_close(played.kept[site], own[site])


def test_sums_and_counts_are_sent_and_nothing_else() -> None:
    played = play(FedProto(uneven_study()), federation(20, 9), 2)
    for sent in (*played.sent[0].values(), *played.sent[1].values()):
        assert set(sent.arrays) == {"prototypes"}
        assert sent.arrays["prototypes"].shape == (3, 9)
    assert set(played.shared) == {"prototypes", "prototype_age"}
    assert not played.personal
    assert all(set(kept) == EXTRACTOR | HEAD for kept in played.kept.values())


def test_a_class_of_one_holder_has_a_prototype_and_one_of_nobody_keeps_its_own() -> None:
    study, sites = uneven_study(), federation(20, 9)
    sites["b"] = without_class(sites["b"], 1)
    played = play(FedProto(study), sites, 2, chosen=[["a", "b"], ["b"]])
    before, after = played.combined[0].shared, played.combined[1].shared
    sums = played.sent[0]["a"].arrays["prototypes"]
    np.testing.assert_allclose(before["prototypes"][1], sums[1, :-1] / sums[1, -1])
    np.testing.assert_array_equal(after["prototypes"][1], before["prototypes"][1])
    assert after["prototype_age"].tolist() == [0, 1, 0]


def test_a_class_that_nobody_ever_held_is_absent() -> None:
    study, sites = uneven_study(), {site: without_class(data, 2) for site, data in federation(20, 9).items()}
    played = play(FedProto(study, inference="prototype"), sites, 2)
    assert played.shared["prototype_age"].tolist() == [0, 0, -1]
    assert (used(FedProto(study, inference="prototype"), sites, played, "a")[:, 2] == 0).all()


def test_one_site_alone_is_drawn_to_its_own_prototypes() -> None:
    study, sites = uneven_study(), federation(20)
    played = play(FedProto(study), sites, 2)
    sums = played.sent[1]["a"].arrays["prototypes"]
    np.testing.assert_allclose(played.shared["prototypes"], sums[:, :-1] / sums[:, -1:])


def test_inference_by_the_nearest_global_prototype() -> None:
    study, sites = uneven_study(), federation(20, 9)
    method = FedProto(study, inference="prototype")
    played = play(method, sites, 2)
    found = used(method, sites, played, "b")
    x, _ = as_torch(sites["b"].test)
    for row, probabilities in zip(x, found, strict=True):
        z = embed(weights_of(played.kept["b"]), row[None])[0].numpy()
        distances = [float(((z - c) ** 2).sum()) for c in played.shared["prototypes"]]
        scale = sum(np.exp(-distance) for distance in distances)
        np.testing.assert_allclose(probabilities, [np.exp(-d) / scale for d in distances], rtol=1e-3, atol=1e-6)
        assert int(np.argmax(probabilities)) == int(np.argmin(distances))


def test_the_nearest_is_one_of_the_site_s_own_classes() -> None:
    study, sites = uneven_study(), federation(20, 9)
    sites["b"] = without_class(sites["b"], 1)
    method = FedProto(study, inference="prototype")
    played = play(method, sites, 2)
    assert played.shared["prototype_age"].tolist() == [0, 0, 0]
    found = {"received": used(method, sites, played, "b"), "trained": played.trained["b"]}
    of = {"received": played.shared, "trained": played.combined[0].shared}
    x, _ = as_torch(sites["b"].test)
    nearest_of_all = list[int]()
    for point, predictions in found.items():
        for row, probabilities in zip(x, predictions, strict=True):
            z = embed(weights_of(played.kept["b"]), row[None])[0].numpy()
            distances = {j: float(((z - of[point]["prototypes"][j]) ** 2).sum()) for j in (0, 1, 2)}
            nearest_of_all.append(min(distances, key=distances.__getitem__))
            assert probabilities[1] == 0
            assert int(np.argmax(probabilities)) == min((0, 2), key=distances.__getitem__)
    assert 1 in nearest_of_all


def test_a_site_whose_classes_have_no_prototype_uses_its_head() -> None:
    study, sites = uneven_study(), federation(20, 20)
    sites["a"] = without_class(without_class(sites["a"], 1), 2)
    sites["b"] = without_class(sites["b"], 0)
    method = FedProto(study, inference="prototype")
    played = play(method, sites, 1, chosen=[["b"]])
    x, _ = as_torch(sites["a"].test)
    expected = torch.softmax(logits(first_weights(study), x), dim=1).numpy()
    np.testing.assert_allclose(used(method, sites, played, "a"), expected, atol=1e-6)


def test_after_training_the_prototypes_are_those_received() -> None:
    study, sites = uneven_study(), federation(20, 9)
    method = FedProto(study, inference="prototype")
    played = play(method, sites, 2)
    model = build(study)
    load_arrays(model, played.kept["b"])
    received = played.combined[0].shared
    prototypes = GlobalPrototypes(received["prototypes"], received["prototype_age"])
    expected = nearest_prototype(model, prototypes, sites["b"].test.x)
    np.testing.assert_array_equal(played.trained["b"], expected)


def test_before_there_is_a_prototype_the_head_is_used() -> None:
    study, sites = uneven_study(), federation(20)
    method = FedProto(study, inference="prototype")
    found = used(method, sites, play(method, sites, 0), "a")
    x, _ = as_torch(sites["a"].test)
    np.testing.assert_allclose(found, torch.softmax(logits(first_weights(study), x), dim=1).numpy(), atol=1e-6)


def test_far_prototypes_still_give_probabilities() -> None:
    model, x = build(uneven_study()), federation(20)["a"].test.x
    far = GlobalPrototypes(np.array([[1e4] * 8, [2e4] * 8, [np.nan] * 8]), np.array([0, 3, -1], dtype=np.int64))
    found = nearest_prototype(model, far, x)
    np.testing.assert_array_equal(found, np.tile([1.0, 0.0, 0.0], (len(x), 1)))
    assert nearest_prototype(model, far, x[:0]).shape == (0, 3)


def test_embeddings_that_are_not_finite_are_said() -> None:
    model, x = build(uneven_study()), federation(20)["a"].test.x.copy()
    x[3] = np.inf
    prototypes = GlobalPrototypes(np.zeros((3, 8)), np.zeros(3, dtype=np.int64))
    with pytest.raises(Diverged, match="an embedding"):
        nearest_prototype(model, prototypes, x)


@pytest.mark.parametrize("inference", ["head", "prototype"])
def test_it_learns_and_models_of_one_s_own_serve_sites_that_disagree(inference: str) -> None:
    study = uneven_study(rounds={"total": 6}, training={"local_epochs": 5})
    sites = federation(30, 30) if inference == "prototype" else disagreeing(30, 30)
    found = outcomes(FedProto(study, lam=0.1, inference=inference), GivenSites(sites))
    assert min(outcome.received.accuracy for outcome in found.values()) > 0.9


def test_probabilities_can_be_scored() -> None:
    study, sites = uneven_study(), federation(20, 9)
    method = FedProto(study, inference="prototype")
    found = used(method, sites, play(method, sites, 2), "a")
    assert score(sites["a"].test.y, found).auc is not None


def test_words_without_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="inference is head or prototype"):
        FedProto(uneven_study(), inference="both")
    with pytest.raises(ValueError, match="lam is a number from 0 on"):
        FedProto(uneven_study(), lam=-1.0)
