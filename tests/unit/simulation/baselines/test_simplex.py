"""The programme over the simplex: against a grid, against another solver, and by its optimality conditions."""

from types import SimpleNamespace
from typing import Any

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from secureproto.simulation.baselines.simplex import Unsolved, minimise

Matrix = NDArray[np.float64]


def value(matrix: Matrix, weights: Matrix) -> float:
    """αᵀPα by two loops."""
    sites = range(len(weights))
    return float(sum(weights[j] * weights[k] * matrix[j, k] for j in sites for k in sites))


def drawn(seed: int, sites: int, rank: int) -> Matrix:
    """A matrix as FedPAC has them: a Gram matrix and a diagonal."""
    numbers = np.random.default_rng(seed)
    factor = numbers.normal(size=(sites, rank))
    return np.asarray(factor @ factor.T + np.diag(numbers.uniform(0, 0.5, sites)))


matrices = st.builds(
    drawn, seed=st.integers(0, 2**32 - 1), sites=st.integers(1, 12), rank=st.integers(1, 6)
) | st.builds(lambda seed, scale: scale * drawn(seed, 5, 3), st.integers(0, 999), st.sampled_from([1e-9, 1e9]))


@settings(deadline=None, max_examples=60)
@given(matrix=matrices)
def test_the_optimality_conditions_hold(matrix: Matrix) -> None:
    weights = minimise(matrix, cut=0.0)
    scale = np.trace(matrix) / len(matrix)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (weights >= 0).all()
    # with multiplier μ of Σα = 1: (Pα)_j ≥ μ, and equal where α_j > 0; then μ = αᵀPα
    slope = matrix @ weights
    optimum = value(matrix, weights)
    assert (slope >= optimum - 1e-5 * scale).all()
    assert (np.abs(weights * (slope - optimum)) <= 1e-6 * scale).all()


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), sites=st.integers(2, 6))
def test_another_solver_finds_nothing_lower(seed: int, sites: int) -> None:
    matrix = drawn(seed, sites, 4)
    other = minimize(
        lambda a: a @ matrix @ a,
        np.full(sites, 1 / sites),
        jac=lambda a: 2 * matrix @ a,
        bounds=[(0, 1)] * sites,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    found = minimise(matrix, cut=0.0)
    assert value(matrix, found) <= value(matrix, other.x) + 1e-6
    np.testing.assert_allclose(found, other.x, atol=5e-3)


def test_a_fine_grid_finds_nothing_lower() -> None:
    grid = np.linspace(0, 1, 201)
    points = np.array([(a, b, 1 - a - b) for a in grid for b in grid if a + b <= 1 + 1e-12])
    for seed in range(5):
        matrix = drawn(seed, 3, 2)
        values = np.einsum("nj,jk,nk->n", points, matrix, points)
        found = minimise(matrix, cut=0.0)
        assert value(matrix, found) <= values.min() + 1e-8
        np.testing.assert_allclose(found, points[values.argmin()], atol=0.05)


def test_a_diagonal_matrix_by_hand() -> None:
    np.testing.assert_allclose(minimise(np.diag([1.0, 2.0, 4.0])), np.array([4, 2, 1]) / 7, atol=1e-6)


def test_one_site_gets_all_whatever_the_matrix() -> None:
    for entry in (0.0, 3.0, -2.0):
        assert minimise(np.array([[entry]])).tolist() == [1.0]


def test_small_weights_are_cut_and_the_rest_scaled() -> None:
    matrix = np.diag([1.0, 1.0, 4000.0])  # the optimum is near (0.49994, 0.49994, 0.00012)
    whole, cut = minimise(matrix, cut=0.0), minimise(matrix)
    assert 1e-4 < whole[2] < 2e-4
    assert cut.tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-7)
    assert cut[2] == 0.0
    kept = minimise(matrix, cut=1e-5)
    assert kept[2] == pytest.approx(whole[2])


def test_where_no_weight_reaches_the_cut_none_is_cut() -> None:
    weights = minimise(np.eye(8), cut=0.2)
    np.testing.assert_allclose(weights, np.full(8, 1 / 8), atol=1e-6)


def test_equal_sites_share_alike_and_a_zero_matrix_too() -> None:
    np.testing.assert_allclose(minimise(np.zeros((4, 4))), np.full(4, 0.25), atol=1e-6)
    np.testing.assert_allclose(minimise(np.ones((4, 4))), np.full(4, 0.25), atol=1e-6)


def test_a_matrix_that_is_not_psd_is_projected() -> None:
    np.testing.assert_allclose(minimise(np.diag([-1.0, 1.0])), [1.0, 0.0], atol=1e-6)
    for seed in range(5):
        numbers = np.random.default_rng(seed)
        raw = numbers.normal(size=(4, 4))
        symmetric = (raw + raw.T) / 2
        values, vectors = np.linalg.eigh(symmetric)
        assert values.min() < 0
        projected = np.zeros((4, 4))
        for eigenvalue, vector in zip(values, vectors.T, strict=True):
            projected += max(eigenvalue, 0.0) * np.outer(vector, vector)
        found, expected = minimise(raw, cut=0.0), minimise(projected, cut=0.0)
        assert value(projected, found) == pytest.approx(value(projected, expected), abs=1e-6)
        assert found.sum() == pytest.approx(1.0)


def test_only_the_symmetric_part_counts() -> None:
    matrix = drawn(3, 4, 3)
    skew = np.triu(np.ones((4, 4)), 1)
    np.testing.assert_allclose(minimise(matrix + skew - skew.T), minimise(matrix), atol=1e-7)


def test_equal_matrices_give_equal_weights() -> None:
    assert minimise(drawn(1, 9, 4)).tobytes() == minimise(drawn(1, 9, 4)).tobytes()


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_is_said(entry: float) -> None:
    with pytest.raises(Unsolved, match="not finite"):
        minimise(np.array([[1.0, entry], [entry, 1.0]]))


def test_what_is_not_a_square_matrix_is_refused() -> None:
    for shape in ((2, 3), (0, 0), (4,)):
        with pytest.raises(ValueError, match="square"):
            minimise(np.zeros(shape))


@pytest.mark.parametrize("status", ["MaxIterations", "NumericalError", "PrimalInfeasible"])
def test_a_solver_that_did_not_end_at_a_solution_is_said(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    def solver(*_: Any) -> Any:
        return SimpleNamespace(solve=lambda: SimpleNamespace(status=status, x=[0.5, 0.5]))

    monkeypatch.setattr(clarabel, "DefaultSolver", solver)
    with pytest.raises(Unsolved, match=status):
        minimise(np.eye(2))
