"""The integer grid on which class sums are made, and how far one record can move them.

Floating-point sums depend on the order of their terms, and what a record changes of them has no clean bound
(Mironov 2012; Casacuberta et al. 2022). So each record's row (z, c), an embedding clipped to R and a constant c for
the count, is rounded to whole steps of a grid **before** it is added, and sums are sums of whole numbers: exact, the
same in any order, and changed by one record by exactly that record's row.

**Sensitivity** (add/remove one record, L2 norm of the C × (d+1) matrix): Δ = √(R² + c²) + grid·√(d+1)/2.
Proof. A record adds one row to one class, so the norm of the change is that of its row. Let w = (clip_R(z), c), and
w + e the rounded row. ‖w‖² = ‖clip_R(z)‖² + c² ≤ R² + c². Rounding to the nearest step moves each of the d+1 entries
by at most grid/2, so ‖e‖ ≤ √(d+1)·grid/2. By the triangle inequality ‖w + e‖ ≤ √(R² + c²) + grid·√(d+1)/2 = Δ. ∎
The proof is about real numbers. That the clip was computed in floating point cannot break the bound, since
`rounded_rows` compares the squared norm of the whole numbers, exactly, with the largest that Δ allows.

Everything here is public. Units: "steps" are whole multiples of `grid`; the rest is in units of the embedding.
Source: PRIVACY.md, "Prototypes"; the clip of vectors to a ball is that of Abadi et al. 2016, algorithm 1.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor, isfinite, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from secureproto.privacy.events import Gaussian

I64: TypeAlias = NDArray[np.int64]
F64: TypeAlias = NDArray[np.float64]

# Steps from 0 to R. A power of two, so that dividing by R / 2^20 loses nothing more. Rounding a record costs
# √(d+1)/2^21 of R in Δ (0.0004 % at d = 64), and a float64 carries the sums of 2^33 records without rounding.
STEPS_PER_RADIUS = 2**20
MAX_WIDTH = 2**20  # squares of 2^20 entries of 2^20 steps add up to 2^60: the guard's int64 sums are exact
MAX_CLASSES = 2**16
LARGEST = 1e6  # of R: what a study file allows
LEAST = 1e-6  # of R: far from where float64 loses digits
COUNT_RATIOS = (1e-3, 1e3)  # c / R; outside it either counts or sums have no use beside the other


@dataclass(frozen=True)
class PrototypeGrid:
    """The public parameters of a study's prototype releases, from which everything else follows.

    Args:
        classes: C; width: d; radius: R; count_weight: c, what a record adds to the column of counts (rounded here
            to whole steps); noise_multiplier: σ_p, the noise's standard deviation over Δ.

    Raises:
        ValueError: a number that is not finite, or outside its bounds.
    """

    classes: int
    width: int
    radius: float
    count_weight: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        if not (1 <= self.classes <= MAX_CLASSES and 1 <= self.width <= MAX_WIDTH):
            raise ValueError(f"classes are 1 to {MAX_CLASSES} and the width of an embedding 1 to {MAX_WIDTH}")
        if not all(isfinite(n) for n in (self.radius, self.count_weight, self.noise_multiplier)):
            raise ValueError("radius, count weight and noise multiplier are finite")
        if not LEAST <= self.radius <= LARGEST:
            raise ValueError(f"the radius is {LEAST} to {LARGEST}")
        if not COUNT_RATIOS[0] <= self.count_weight / self.radius <= COUNT_RATIOS[1]:
            raise ValueError(f"the weight of a count is {COUNT_RATIOS[0]} to {COUNT_RATIOS[1]} times the radius")
        if self.noise_multiplier <= 0:
            raise ValueError("the noise multiplier is over 0")

    @property
    def step(self) -> float:
        """`grid`: the length of one step."""
        return self.radius / STEPS_PER_RADIUS

    @property
    def count_steps(self) -> int:
        """Steps that one record adds to the column of counts."""
        return round(self.count_weight / self.step)

    @property
    def sensitivity_steps(self) -> float:
        """Δ in steps."""
        largest_row = sqrt(self.radius**2 + self.count_weight**2)
        return largest_row / self.step + sqrt(self.width + 1) / 2

    @property
    def sensitivity(self) -> float:
        """Δ in units of the embedding: the L2 norm by which one record can change the matrix."""
        return self.sensitivity_steps * self.step

    @property
    def noise_steps(self) -> float:
        """σ_p Δ in steps: the standard deviation of the noise on every entry of the matrix."""
        return self.noise_multiplier * self.sensitivity_steps

    @property
    def sum_noise(self) -> float:
        """Standard deviation of the noise on an entry of a class sum, in units of the embedding."""
        return self.noise_steps * self.step

    @property
    def count_noise(self) -> float:
        """σ_count: standard deviation of the noise on a class count, in records."""
        return self.noise_steps / self.count_steps

    @property
    def longest(self) -> float:
        """R + grid·√d/2: the L2 norm of the longest rounded embedding. A sum is at most that times its count."""
        return self.radius + self.step * sqrt(self.width) / 2

    @property
    def event(self) -> Gaussian:
        """What one release is for the accountant.

        The joint Gaussian release of a quantity of sensitivity Δ with noise σ_p Δ. On whole numbers the discrete
        Gaussian's Rényi divergences are, at every order, at most those of the Gaussian of the same σ_p (Canonne,
        Kamath, Steinke 2020, section 2, for one entry and for many), so the RDP filter is exact about it. Its
        privacy profile goes to the Gaussian's as the grid gets finer than the noise; see `MIN_NOISE_STEPS`.
        """
        return Gaussian(self.noise_multiplier)


def clip_rows(embeddings: F64, radius: float) -> F64:
    """Each row z (n, d) times min(1, R/‖z‖): its own affair, whatever the other rows are. Rows must be finite.

    The largest entry is divided out first, so that no square of a huge row overflows to an infinite norm.
    """
    largest = np.abs(embeddings).max(axis=1, keepdims=True, initial=0.0)
    scaled = np.zeros(embeddings.shape)
    np.divide(embeddings, largest, out=scaled, where=largest > 0)
    norms = np.sqrt(np.einsum("nd,nd->n", scaled, scaled))[:, None]  # 1 to √d where the row is not zero
    with np.errstate(over="ignore"):  # R over a tiny entry may be infinite: then the row is within R
        room: F64 = radius / np.where(largest > 0, largest, 1.0)
    over: NDArray[np.bool_] = np.asarray(norms > room)
    factor = np.where(over, radius / np.where(norms > 0, norms, 1.0), 0.0)
    return np.where(over, scaled * factor, embeddings)


def rounded_rows(embeddings: F64, grid: PrototypeGrid) -> tuple[I64, NDArray[np.bool_]]:
    """Rows (n, d+1) in whole steps, and which records (n,) are good. A bad one, not finite, has a row of zeros.

    A row whose whole numbers are longer than Δ allows would be bad too; the proof above leaves room for none, and
    the comparison is exact, so that the bound does not rest on floating-point arithmetic.
    """
    good: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(embeddings), axis=1)
    clipped = clip_rows(np.where(good[:, None], embeddings, 0.0), grid.radius)
    rows = np.empty((len(embeddings), grid.width + 1), dtype=np.int64)
    np.rint(clipped / grid.step, out=rows[:, :-1], casting="unsafe")  # at most 2^20 steps and one: exact
    rows[:, -1] = grid.count_steps
    squares: I64 = np.einsum("nd,nd->n", rows[:, :-1], rows[:, :-1])
    longest = floor(Fraction(grid.sensitivity_steps) ** 2) - grid.count_steps**2
    good &= squares <= longest
    rows[~good] = 0
    return rows, good


def add_exactly(left: I64, right: I64) -> I64:
    """left + right, elementwise.

    Raises:
        ValueError: a sum beyond int64. It takes 2^42 records, which no memory of a site holds and no one record
            brings about, so this says nothing of a record.
    """
    total: I64 = left + right
    # the sum of two numbers of one sign has another sign exactly when it wrapped around
    if (((left ^ total) & (right ^ total)) < 0).any():
        raise ValueError("a class sum is beyond 64-bit whole numbers")
    return total


def class_totals(rows: I64, classes: I64, count: int) -> I64:
    """(C, d+1): the rows (n, d+1) of each class 0 … C−1 added up; a row of any other class is in none of them.

    Raises:
        ValueError: so many rows that a sum could be beyond int64.
    """
    largest = int(np.abs(rows).max(initial=0))
    if len(rows) * largest > np.iinfo(np.int64).max:
        raise ValueError("a class sum is beyond 64-bit whole numbers")
    totals = np.zeros((count, rows.shape[1]), dtype=np.int64)
    for j in range(count):  # faster than add.at by far, and C is small
        totals[j] = rows[classes == j].sum(axis=0)
    return totals
