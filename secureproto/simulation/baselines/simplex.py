"""The quadratic programme over the simplex: min αᵀPα with α ≥ 0 and Σα = 1, solved by Clarabel's interior point.

Source of the solver: Goulart and Chen, "Clarabel: An interior-point solver for conic programs with quadratic
objectives", 2024. One thread, so equal matrices give equal weights on one machine.

Invariants: what comes back is on the simplex to the last digits; a programme that was not solved is an error and
never a guess.
"""

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from secureproto.aggregation.layout import F64

CUT = 1e-3  # the published code of FedPAC drops smaller weights
RIDGE = 1e-9  # of the mean of the diagonal: one solution where P leaves several
_SOLVED = ("Solved", "AlmostSolved")  # the second: to 5e-5 of the scale of P, in place of 1e-8


class Unsolved(ArithmeticError):
    """The programme has no solution that could be found; the text says why."""


def minimise(matrix: NDArray[np.float64], *, cut: float = CUT) -> F64:
    """The weights α (m,) of a matrix P (m, m).

    P is made symmetric, its negative eigenvalues (rounding, or no quadratic form at all) are set to 0, and a ridge
    is added; the published code of FedPAC, where an eigenvalue is negative, sets all under 0.01 to 0. Weights under
    `cut` become 0 and the others are scaled to sum 1 again, as that code does it; 0 leaves the optimum as it is. With
    so many sites that no weight reaches `cut`, none is cut.

    Raises:
        ValueError: not a square matrix.
        Unsolved: a number that is not finite, or the solver did not end at a solution.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError("P is a square matrix")
    if not np.isfinite(matrix).all():
        raise Unsolved("the matrix is not finite")
    weights = np.maximum(_solve(_convex(matrix)), 0.0)
    if (weights >= cut).any():
        weights[weights < cut] = 0.0
    return np.asarray(weights / weights.sum())


def _convex(matrix: F64) -> F64:
    """P symmetric, positive definite and of unit scale. The minimum lies where it lay."""
    ridge = RIDGE * np.eye(len(matrix))
    scaled = _unit_scale((matrix + matrix.T) / 2)
    try:
        np.linalg.cholesky(scaled + ridge)
    except np.linalg.LinAlgError:  # not definite; eigenvalues only here, they cost as much as the programme itself
        values, vectors = np.linalg.eigh(scaled)
        scaled = _unit_scale((vectors * np.maximum(values, 0.0)) @ vectors.T)
    return scaled + ridge


def _unit_scale(matrix: F64) -> F64:
    """Divided by the mean size of its diagonal; where that is 0, as it is."""
    scale = np.abs(np.diag(matrix)).mean()
    return matrix / scale if scale > 0 else matrix


def _solve(convex: F64) -> F64:
    sites = len(convex)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    constraints = sparse.csc_matrix(np.vstack([np.ones((1, sites)), -np.eye(sites)]))  # Σα = 1, then −α + s = 0
    bounds = np.concatenate([[1.0], np.zeros(sites)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(sites)]
    objective = sparse.csc_matrix(np.triu(convex))
    solution = clarabel.DefaultSolver(objective, np.zeros(sites), constraints, bounds, cones, settings).solve()
    if str(solution.status) not in _SOLVED:
        raise Unsolved(f"the solver ended with {solution.status}")
    return np.array(solution.x)
