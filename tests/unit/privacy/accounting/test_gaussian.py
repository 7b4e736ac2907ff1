"""The closed form of the Gaussian mechanism: published figures, inverses of each other, and extremes."""

from collections.abc import Callable
from math import erf, exp, inf, isfinite, log, nan, sqrt

import pytest

from secureproto.privacy.accounting.gaussian import delta_of, epsilon_for, epsilon_of, log_delta, mu_for, sigma_for


@pytest.mark.parametrize(
    ("epsilon", "noise"), [(1.0, (3.7306, 8.3419, 26.3795)), (8.0, (0.600229, 1.342153, 4.244260))]
)
def test_noise_of_prototypes(epsilon: float, noise: tuple[float, ...]) -> None:
    found = tuple(sigma_for(epsilon, 1e-5, releases) for releases in (1, 5, 50))
    assert found == pytest.approx(noise, rel=3e-5)


@pytest.mark.parametrize(
    ("noise", "releases", "epsilon"),
    [(4.0, 100, 13.2067), (10 / sqrt(2), 100, 6.57297), (10 / sqrt(2), 10, 1.76006)],
)
def test_epsilon_of_prototypes_and_of_metrics(noise: float, releases: int, epsilon: float) -> None:
    assert epsilon_of(noise, 1e-5, releases) == pytest.approx(epsilon, rel=1e-5)


def test_delta_at_zero_is_the_total_variation() -> None:
    for mu in (1e-6, 0.3, 2.0, 30.0, 1e3, 1e6):
        assert exp(log_delta(mu, 0.0)) == pytest.approx(erf(mu / (2 * sqrt(2))), rel=1e-8)


def test_delta_as_the_definition_has_it_where_that_can_be_reckoned() -> None:
    def phi(x: float) -> float:
        return (1 + erf(x / sqrt(2))) / 2

    for noise, epsilon in ((1.0, 1.0), (0.5, 3.0), (2.0, 0.1)):
        mu = 1 / noise
        plain = phi(mu / 2 - epsilon / mu) - exp(epsilon) * phi(-mu / 2 - epsilon / mu)
        assert delta_of(noise, epsilon) == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize("noise", [1e-4, 0.1, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 0.4])
def test_the_functions_invert_each_other_on_the_safe_side(noise: float, delta: float) -> None:
    epsilon = epsilon_of(noise, delta)
    assert isfinite(epsilon)
    if epsilon > 0:
        assert log_delta(1 / noise, epsilon) <= log(delta)
        assert log_delta(1 / noise, epsilon * (1 - 1e-6)) > log(delta)
        assert sigma_for(epsilon, delta) == pytest.approx(noise, rel=1e-6)
        assert log_delta(mu_for(epsilon, delta), epsilon) <= log(delta)


def test_a_delta_that_covers_everything_leaves_no_epsilon() -> None:
    assert epsilon_of(1e6, 0.01) == 0.0


def test_misuse() -> None:
    calls: list[Callable[[], float]] = [
        lambda: epsilon_for(0.0, 0.1),
        lambda: epsilon_for(nan, 0.1),
        lambda: epsilon_of(1.0, 0.0),
        lambda: epsilon_of(-1.0, 0.1),
        lambda: epsilon_of(1.0, 0.1, 0),
        lambda: mu_for(0.0, 0.1),
        lambda: sigma_for(1.0, 1.0),
        lambda: delta_of(1.0, -inf),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="domain"):
            call()
