"""FedPAC's formulas against plain loops: h and V, the programmes, the two trainings, centroids and combined heads."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from secureproto.learning.dataset import Records
from secureproto.learning.model import build
from secureproto.simulation.baselines.fedpac import FedPAC, class_statistics, collaboration, programmes
from secureproto.simulation.baselines.simplex import Unsolved, minimise
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites
from support.learning import blobs
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
    slow_mean,
    slow_training,
    uneven_study,
    used,
    weights_of,
    without_class,
)

Array = NDArray[np.float64]
SENT = EXTRACTOR | HEAD | {"prototypes", "statistics", "variance"}


def statistics_by_loops(weights: Weights, data: Records) -> tuple[Array, float]:
    """h_c = p_c μ_c; V = (1/n) (Σ_c p_c tr(F_cᵀF_c / n_c) − Σ_c p_c² ‖μ_c‖²), as the published code writes it."""
    x, y = as_torch(data)
    z = embed(weights, x).numpy()
    h, v, n = np.zeros((3, 8)), 0.0, len(y)
    for c in range(3):
        rows = [z[i] for i in range(n) if int(y[i]) == c]
        if rows:
            prior, mean = len(rows) / n, sum(rows) / len(rows)
            second = np.zeros((8, 8))
            for row in rows:
                second += np.outer(row, row) / len(rows)
            h[c] = prior * mean
            v += prior * np.trace(second) - prior**2 * sum(entry**2 for entry in mean)
    return h, v / n


def programme_by_loops(h: Array, v: Array, i: int) -> Array:
    """P_i, entry by entry."""
    m, classes, _ = h.shape
    found = np.zeros((m, m))
    for j in range(m):
        for k in range(m):
            found[j, k] = sum(float((h[i, c] - h[j, c]) @ (h[i, c] - h[k, c])) for c in range(classes))
            found[j, k] += v[j] if j == k else 0.0
    return found


def slow_weights(h: Array, v: Array) -> Array:
    """α of every site by another solver, small ones dropped."""
    m = len(h)
    found = np.zeros((m, m))
    for i in range(m):
        matrix = programme_by_loops(h, v, i)
        scale = np.trace(matrix)
        solved = minimize(
            lambda a, p=matrix / scale: a @ p @ a,
            np.full(m, 1 / m),
            bounds=[(0, 1)] * m,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        ).x
        kept = np.array([weight if weight > 1e-3 else 0.0 for weight in solved])
        found[i] = kept / kept.sum()
    return found


def aligned(centroids: dict[int, Tensor], lam: float) -> Loss:
    def loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
        z, total = embed(weights, x), torch.zeros((), dtype=torch.float64)
        for embedding, label in zip(z, y.tolist(), strict=True):
            if label in centroids:
                total = total + ((embedding - centroids[label]) ** 2).sum() / 8
        return cross_entropy(weights, x, y) + lam * total / len(y)

    return loss


def test_statistics_are_those_of_the_published_code() -> None:
    study, sites = uneven_study(), federation(20, 9, 1)
    sites["b"] = without_class(sites["b"], 1)
    for data in sites.values():
        h, v = class_statistics(build(study), data.train)
        expected_h, expected_v = statistics_by_loops(first_weights(study), data.train)
        np.testing.assert_allclose(h, expected_h, rtol=1e-5, atol=1e-7)
        assert v == pytest.approx(expected_v, rel=1e-4, abs=1e-7)
    assert (class_statistics(build(study), sites["b"].train)[0][1] == 0).all()
    assert class_statistics(build(study), sites["c"].train)[1] == pytest.approx(0.0, abs=1e-12)


def test_the_variance_is_never_negative_and_0_for_equal_records() -> None:
    model, many = build(uneven_study()), blobs(60)
    for i in range(60):
        equal = Records(np.repeat(many.x[i : i + 1], 7, axis=0), np.repeat(many.y[i : i + 1], 7))
        _, variance = class_statistics(model, equal)
        assert 0 <= variance < 1e-12


def test_the_variance_is_that_of_the_estimate() -> None:
    """V against the spread of h over many sites of one population."""
    study, many = uneven_study(), blobs(4000, seed=1)
    model, numbers = build(study), np.random.default_rng(0)
    estimates, variances = [], []
    for _ in range(300):
        rows = numbers.choice(len(many), 25)
        h, v = class_statistics(model, Records(many.x[rows], many.y[rows]))
        estimates.append(h)
        variances.append(v)
    spread = float(np.stack(estimates).var(axis=0).sum())
    assert np.mean(variances) == pytest.approx(spread, rel=0.15)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 6), shift=st.sampled_from([0.0, 1e4]))
def test_programmes_are_those_of_the_triple_loop(seed: int, m: int, shift: float) -> None:
    numbers = np.random.default_rng(seed)
    h, v = numbers.normal(size=(m, 3, 4)) + shift, numbers.uniform(0, 1, m)
    h[0, 1] = shift  # a class that a site does not hold is a row like any other
    for i, matrix in enumerate(programmes(h, v)):
        np.testing.assert_allclose(matrix, programme_by_loops(h, v, i), rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 5))
def test_weights_are_the_minimum_for_every_site(seed: int, m: int) -> None:
    numbers = np.random.default_rng(seed)
    h, v = 0.3 * numbers.normal(size=(m, 3, 4)), numbers.uniform(0.1, 1, m)
    found = collaboration(h, v, [f"s{i}" for i in range(m)])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(found, slow_weights(h, v), atol=5e-3)


def test_two_rounds_against_an_oracle() -> None:
    study, sites, lam = uneven_study(), federation(20, 9, 14), 0.7
    with_steps_of_the_head = uneven_study(training={"learning_rate": 0.3})
    sites["b"] = without_class(sites["b"], 1)
    first = first_weights(study)
    base = {name: first[name] for name in EXTRACTOR}
    heads = {site: {name: first[name] for name in HEAD} for site in sites}
    centroids: dict[int, Tensor] = {}
    weights = np.eye(3)
    for number in range(2):
        models: dict[str, Weights] = {}
        parts: dict[int, list[tuple[int, Tensor]]] = {0: [], 1: [], 2: []}
        found = [statistics_by_loops({**base, **heads[site]}, data.train) for site, data in sites.items()]
        for site, data in sites.items():
            model, path = {**base, **heads[site]}, (site, number)
            model = slow_training(
                model, data.train, study=with_steps_of_the_head, path=(*path, "head"), part=HEAD, epochs=2
            )
            loss = aligned(centroids, lam)
            model = slow_training(model, data.train, study=study, path=path, part=EXTRACTOR, loss=loss)
            models[site] = model
            x, y = as_torch(data.train)
            for label in set(y.tolist()):
                parts[label].append((int((y == label).sum()), embed(model, x[y == label]).sum(dim=0)))
        base = slow_mean(models, sites, EXTRACTOR)
        centroids = {
            label: torch.stack([total for _, total in held]).sum(dim=0) / sum(count for count, _ in held)
            for label, held in parts.items()
        }
        weights = slow_weights(np.stack([h for h, _ in found]), np.array([v for _, v in found]))
        heads = {
            site: {
                name: torch.stack([weights[i, j] * models[other][name] for j, other in enumerate(models)]).sum(dim=0)
                for name in HEAD
            }
            for i, site in enumerate(sites)
        }
    played = play(FedPAC(study, head_epochs=2, head_learning_rate=0.3, lam=lam), sites, 2)
    relation = played.combined[1].relation
    assert relation is not None
    np.testing.assert_allclose(relation, weights, atol=5e-3)
    assert_close({name: played.shared[name] for name in EXTRACTOR}, base)
    for label, centroid in centroids.items():
        np.testing.assert_allclose(played.shared["prototypes"][label], centroid.numpy(), rtol=2e-4, atol=2e-5)
    for site in sites:
        assert set(played.personal[site]) == HEAD
        for name in HEAD:
            np.testing.assert_allclose(played.personal[site][name], heads[site][name].numpy(), atol=5e-3)


def test_heads_are_combined_by_the_relation_that_is_told() -> None:
    study, sites = uneven_study(), federation(20, 9, 14)
    played = play(FedPAC(study), sites, 1)
    relation = played.combined[0].relation
    assert relation is not None
    for i, site in enumerate(sites):
        for name in HEAD:
            expected = sum(relation[i, j] * played.sent[0][b].arrays[name] for j, b in enumerate(sites))
            np.testing.assert_allclose(played.personal[site][name], expected, rtol=1e-5, atol=1e-6)
            assert played.personal[site][name].dtype == np.float32


def test_what_is_sent_and_when_it_was_measured() -> None:
    study, sites = uneven_study(), federation(20, 9)
    played = play(FedPAC(study), sites, 2)
    for number, sent in enumerate(played.sent):
        for site, data in sites.items():
            arrays = sent[site].arrays
            assert set(arrays) == SENT
            assert (arrays["statistics"].shape, arrays["variance"].shape) == ((3, 8), (1,))
            before = first_weights(study) if number == 0 else weights_of(played.combined[0].shared)
            h, v = statistics_by_loops(before, data.train)  # under the extractor as received
            np.testing.assert_allclose(arrays["statistics"], h, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(arrays["variance"], [v], rtol=1e-3, atol=1e-7)
            x, y = as_torch(data.train)
            z = embed(weights_of({name: arrays[name] for name in EXTRACTOR}), x)  # under the extractor as trained
            for label in range(3):
                total = z[y == label].sum(dim=0).numpy()
                np.testing.assert_allclose(arrays["prototypes"][label, :-1], total, rtol=1e-4, atol=1e-5)
                assert arrays["prototypes"][label, -1] == int((y == label).sum())
    assert not played.kept
    assert set(played.shared) == EXTRACTOR | {"prototypes", "prototype_age"}


def test_a_study_that_stops_early_makes_no_site_report_its_loss() -> None:
    study = uneven_study(stopping={"relative_tolerance": 0.01, "patience": 1})
    played = play(FedPAC(study), federation(20, 9), 1)
    assert set(played.sent[0]["a"].arrays) == SENT
    assert played.combined[0].loss is None


def test_a_site_uses_the_common_extractor_and_its_combined_head() -> None:
    study, sites = uneven_study(), federation(20, 9)
    played = play(FedPAC(study), sites, 2)
    both = weights_of({**{name: played.shared[name] for name in EXTRACTOR}, **played.personal["b"]})
    x, _ = as_torch(sites["b"].test)
    expected = torch.softmax(logits(both, x), dim=1).numpy()
    np.testing.assert_allclose(used(FedPAC(study), sites, played, "b"), expected, atol=1e-6)


def test_one_site_alone_keeps_its_own_head() -> None:
    study, sites = uneven_study(), federation(20)
    played = play(FedPAC(study), sites, 2)
    assert played.combined[1].relation is not None
    assert played.combined[1].relation.tolist() == [[1.0]]
    assert all(np.array_equal(played.personal["a"][n], played.sent[1]["a"].arrays[n]) for n in HEAD)


def test_a_class_of_nobody_keeps_its_centroid_and_a_site_outside_its_head() -> None:
    study, sites = uneven_study(), federation(20, 9)
    sites["b"] = without_class(sites["b"], 1)
    played = play(FedPAC(study), sites, 2, chosen=[["a", "b"], ["b"]])
    before, after = played.combined[0].shared, played.combined[1].shared
    np.testing.assert_array_equal(after["prototypes"][1], before["prototypes"][1])
    assert after["prototype_age"].tolist() == [0, 1, 0]
    assert set(played.combined[1].personal) == {"b"}


def test_a_programme_without_a_solution_leaves_the_own_head_and_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = list[int]()

    def sometimes(matrix: Array) -> Array:
        calls.append(len(calls))
        if len(calls) == 2:
            raise Unsolved("the solver ended with MaxIterations")
        return minimise(matrix)

    monkeypatch.setattr("secureproto.simulation.baselines.fedpac.minimise", sometimes)
    numbers = np.random.default_rng(0)
    with caplog.at_level(logging.WARNING):
        found = collaboration(0.01 * numbers.normal(size=(3, 3, 4)), np.ones(3), ["a", "b", "c"])
    assert found[1].tolist() == [0.0, 1.0, 0.0]
    assert (found[[0, 2]] > 0.2).all()
    (record,) = caplog.records
    assert "site b keeps its own head" in record.getMessage()
    assert "MaxIterations" in record.getMessage()


def test_heads_of_one_s_own_serve_sites_that_disagree() -> None:
    study, sites = uneven_study(rounds={"total": 6}, training={"local_epochs": 5}), disagreeing(30, 30, 30)
    found = outcomes(FedPAC(study, head_epochs=5, lam=0.1), GivenSites(sites))
    assert min(outcome.tuned.accuracy for outcome in found.values()) > 0.9


def test_the_head_has_the_published_step_whatever_the_study_has() -> None:
    """One epoch with 0.1, then the extractor with the study's 0.01."""
    study, sites = uneven_study(training={"learning_rate": 0.01}), federation(20, 9)
    played = play(FedPAC(study), sites, 1)
    for site, data in sites.items():
        steps, first = uneven_study(training={"learning_rate": 0.1}), first_weights(study)
        expected = slow_training(first, data.train, study=steps, path=(site, 0, "head"), part=HEAD, epochs=1)
        expected = slow_training(expected, data.train, study=study, path=(site, 0), part=EXTRACTOR)
        assert_close({name: played.sent[0][site].arrays[name] for name in EXTRACTOR | HEAD}, expected)


def test_settings_without_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="head_epochs is a whole number from 1 on"):
        FedPAC(uneven_study(), head_epochs=0)
    for rate in (0.0, -0.1, float("inf")):
        with pytest.raises(ValueError, match="head_learning_rate is a number over 0"):
            FedPAC(uneven_study(), head_learning_rate=rate)
    with pytest.raises(ValueError, match="lam is a number from 0 on"):
        FedPAC(uneven_study(), lam=float("nan"))
