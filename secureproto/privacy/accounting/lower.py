"""A bound that no ε may lie below: what an observer who makes one plain test achieves, reckoned exactly.

Whoever tells two neighbours apart with power p and false alarms f proves e^ε ≥ (p − δ)/f. Looking at less than all
that was released proves less, never too much, and so does any test.

Invariants: for Gaussian releases alone the bound is the closed form itself; it needs no discretisation and shares no
code with the accountants it watches.
Sources: Balle, Wang 2018, theorem 8 (Gaussians); the hockey-stick form of (ε, δ) (Barthe, Olmedo 2013) with the
test that adds up all steps: without the record its statistic is Gaussian, with it a binomial mixture of Gaussians.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom

from secureproto.privacy.accounting.gaussian import epsilon_for
from secureproto.privacy.accounting.tally import Part, Tally

THRESHOLDS = 400
BINS = 2000  # of the number of steps in which the record takes part
WIDTH = 12.0  # standard deviations around its mean; what is left out only weakens the test

Floats = NDArray[np.float64]


def lower_bound(spent: Tally, delta: float) -> float:
    """An ε that the composition exceeds or equals for sure; 0 where the tests prove nothing. Infinite if unprotected.

    The best of: all unsampled releases together; these with one of the sampled parts, and each of those alone.
    """
    if spent.unprotected:
        return float("inf")
    mu = sqrt(spent.mu_squared)
    bounds = [epsilon_for(mu, delta)] if mu > 0 else [0.0]
    for part in spent.sampled:
        bounds += [_by_sum(part, mu, delta)] if mu > 0 else []
        bounds.append(_by_sum(part, 0.0, delta))
    return max(bounds)


def _by_sum(part: Part, mu: float, delta: float) -> float:
    """The test on w·(sum of the part's steps) + μ·(the Gaussian): each weighed by its shift over its variance."""
    weight = part.sample_rate / part.noise_multiplier**2
    spread = sqrt(part.count * (weight * part.noise_multiplier) ** 2 + mu * mu)
    log_mass, taken = _taking_part(part)
    # of the statistic, in its standard deviations, by how often the record takes part
    shifts = (mu * mu + weight * taken) / spread
    # the best threshold of a Gaussian shifted by s lies under s + √(2 log 1/δ)
    thresholds = np.linspace(-1.0, float(shifts[-1]) + sqrt(-2 * np.log(delta)) + 1, THRESHOLDS)
    log_false = log_ndtr(-thresholds)
    log_power = logsumexp(log_mass + log_ndtr(shifts - thresholds[:, None]), axis=1)
    above = log_power > np.log(delta)
    if not above.any():
        return 0.0
    gained = log_power[above] + np.log1p(-np.exp(np.log(delta) - log_power[above]))
    return max(0.0, float(np.max(gained - log_false[above])))


def _taking_part(part: Part) -> tuple[Floats, Floats]:
    """How many steps the record is in: log masses of bins, and the least number of each, which weakens the test."""
    mean, spread = part.count * part.sample_rate, sqrt(part.count * part.sample_rate * (1 - part.sample_rate))
    low = max(0, int(mean - WIDTH * spread) - 1)
    high = min(part.count, int(mean + WIDTH * spread) + 12)
    edges = np.unique(np.linspace(low, high + 1, min(BINS, high + 1 - low) + 1).astype(np.int64))
    if len(edges) == high + 2 - low:
        return np.asarray(binom.logpmf(edges[:-1], part.count, part.sample_rate)), edges[:-1].astype(np.float64)
    mass = np.diff(binom.cdf(edges - 1, part.count, part.sample_rate))
    kept = mass > 0
    return np.log(mass[kept]), edges[:-1][kept].astype(np.float64)
