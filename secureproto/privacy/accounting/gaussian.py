"""The Gaussian mechanism in closed form: what k releases cost exactly, and the noise that a budget asks for.

Invariants: `epsilon_of` never understates and `sigma_for` never gives too little noise (both return the safe end of
the last interval of a bisection); k releases of noise multiplier σ are one release of μ = √k/σ, and so are releases
of different σ with the squares of their μ added up.
Source: Balle, Wang 2018, "Improving the Gaussian mechanism for differential privacy", theorem 8 and algorithm 1.
"""

from collections.abc import Callable
from math import exp, log, log1p, sqrt
from typing import cast

from scipy.special import erfcx, ndtr

HALF_LOG_2PI = 0.9189385332046727
HALVINGS = 200  # of an interval of doubles; it ends earlier, when no double lies between its ends


def mu_of(noise_multiplier: float, releases: int = 1) -> float:
    """μ of `releases` releases: the distance between two neighbours' Gaussians in units of their noise."""
    return sqrt(releases) / noise_multiplier


def log_delta(mu: float, epsilon: float) -> float:
    """log δ of μ at ε ≥ 0, without cancellation where δ is far below the smallest double.

    With a = μ/2 − ε/μ and b = −μ/2 − ε/μ, δ = Φ(a) − e^ε Φ(b). Because e^ε φ(b) = φ(a), that is
    φ(a) · (m(−a) − m(−b)), m being Mills' ratio: nothing of the size of e^ε is ever formed.
    """
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    log_density = -a * a / 2 - HALF_LOG_2PI
    if a > 0:
        return log1p(-float(ndtr(-a)) - exp(log_density) * _mills(-b))
    difference = _mills(-a) - _mills(-b)
    # two ratios that round to one number: μ times the least slope between them is what they differ by at least
    return log_density + log(difference if difference > 0 else mu / (1 + b * b))


def delta_of(noise_multiplier: float, epsilon: float, releases: int = 1) -> float:
    """The smallest δ with which `releases` releases are (ε, δ)-differentially private.

    Raises:
        ValueError: an ε below 0, a noise multiplier not over 0, fewer releases than 1.
    """
    _check(epsilon >= 0 and noise_multiplier > 0 and releases >= 1)
    return exp(log_delta(mu_of(noise_multiplier, releases), epsilon))


def epsilon_for(mu: float, delta: float) -> float:
    """The smallest ε of μ at δ; 0 where δ covers everything.

    Raises:
        ValueError: a μ not over 0, or a δ outside (0, 1).
    """
    _check(mu > 0 and 0 < delta < 1)
    wanted = log(delta)
    if log_delta(mu, 0.0) <= wanted:
        return 0.0
    # at μ²/2 + μ√(2 log 1/δ), δ is kept: the tail bound of concentrated differential privacy (Bun, Steinke 2016)
    enough = mu * mu / 2 + mu * sqrt(-2 * wanted)
    return _bisect(0.0, enough, lambda epsilon: log_delta(mu, epsilon) <= wanted)


def epsilon_of(noise_multiplier: float, delta: float, releases: int = 1) -> float:
    """The smallest ε of `releases` releases at δ. Raises ValueError as `epsilon_for` does."""
    _check(noise_multiplier > 0 and releases >= 1)
    return epsilon_for(mu_of(noise_multiplier, releases), delta)


def mu_for(epsilon: float, delta: float) -> float:
    """The largest μ that (ε, δ) allows.

    Raises:
        ValueError: an ε not over 0, or a δ outside (0, 1).
    """
    _check(epsilon > 0 and 0 < delta < 1)
    wanted = log(delta)
    too_much = 1.0
    while log_delta(too_much, epsilon) <= wanted:
        too_much *= 2
    # `_bisect` returns what satisfies: here from above 1/μ, which grows as noise does
    return 1 / _bisect(1 / too_much, 1 / _allowed(epsilon, wanted), lambda x: log_delta(1 / x, epsilon) <= wanted)


def sigma_for(epsilon: float, delta: float, releases: int = 1) -> float:
    """The least noise multiplier with which `releases` releases keep (ε, δ). Raises ValueError as `mu_for` does."""
    _check(releases >= 1)
    return sqrt(releases) / mu_for(epsilon, delta)


def _allowed(epsilon: float, log_of_delta: float) -> float:
    """A μ that (ε, δ) allows for sure: the root of μ²/2 + μ√(2 log 1/δ) = ε."""
    tail = sqrt(-2 * log_of_delta)
    return 2 * epsilon / (tail + sqrt(tail * tail + 2 * epsilon))


def _bisect(too_little: float, enough: float, holds: Callable[[float], bool]) -> float:
    """The upper end of the last interval whose lower end fails and whose upper end holds."""
    for _ in range(HALVINGS):
        middle = (too_little + enough) / 2
        if not too_little < middle < enough:
            break
        if holds(middle):
            enough = middle
        else:
            too_little = middle
    return enough


def _mills(x: float) -> float:
    """(1 − Φ(x)) / φ(x), for x ≥ 0."""
    return sqrt(3.141592653589793 / 2) * cast(float, erfcx(x / sqrt(2)))


def _check(holds: bool) -> None:
    if not holds:
        raise ValueError("outside the Gaussian mechanism's domain")
