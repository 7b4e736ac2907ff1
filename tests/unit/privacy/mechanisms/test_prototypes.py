"""The mechanism's noise by Monte-Carlo, with faults planted that must be seen; bad records; what is not shown."""

import logging
from collections.abc import Callable
from math import inf, nan, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.learning.inference import outputs
from secureproto.learning.model import build
from secureproto.learning.prototypes import class_sums
from secureproto.privacy.events import Gaussian, Unprotected
from secureproto.privacy.mechanisms.discrete_gaussian import add_noise
from secureproto.privacy.mechanisms.grid import PrototypeGrid, class_totals
from secureproto.privacy.mechanisms.prototypes import PrototypeSums, exact_sums
from support.learning import blobs, tabular_study

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Build = Callable[[F64, I64], F64]  # embeddings and classes into what is released

GRID = PrototypeGrid(classes=10, width=12, radius=1.0, count_weight=0.4, noise_multiplier=1.5)
HELD = 8  # classes; the last two are not
ALARM = 6.0  # standard deviations: a right build rings one of its alarms less than once in 10^6 runs


def records(count: int) -> tuple[F64, I64]:
    """Records of norm at most 1 of the classes held."""
    numbers = np.random.default_rng(count)
    z = numbers.normal(size=(count, GRID.width))
    return z / np.linalg.norm(z, axis=1, keepdims=True), numbers.integers(0, HELD, count)


def plain_sums(z: F64, y: I64) -> F64:
    """The method's class sums and counts in grid steps, in floating point, by themselves."""
    found = np.zeros((GRID.classes, GRID.width + 1))
    np.add.at(found, y, np.column_stack([z / GRID.step, np.full(len(z), GRID.count_steps)]))
    return found


def findings(build: Build, draws: int) -> set[str]:
    """What is wrong with a build, by its releases alone."""
    found, pooled = set(), []
    for count in (20, 2000):
        z, y = records(count)
        exact = plain_sums(z, y)
        noise = np.array([build(z, y) - exact for _ in range(draws // 2)]) / GRID.noise_steps
        if _deviations(noise) > ALARM:
            found.add(f"scale at {count} records")
        if _deviations(noise[:, HELD:]) > ALARM:
            found.add("classes not held")
        if _deviations(noise[:, :, -1]) > ALARM:
            found.add("counts")
        if abs(noise.sum()) / sqrt(noise.size) > ALARM:
            found.add("bias")
        pooled.append(noise)
    if _deviations(np.array(pooled)) > ALARM:
        found.add("scale")
    z, y = records(20)
    hostile, direction = np.vstack([z, 1e3 * z[:1]]), np.append(z[0], 0.0)
    with_it = sum(build(hostile, np.append(y, 0))[0] @ direction for _ in range(8)) / 8
    without = plain_sums(z, y)[0] @ direction
    if with_it - without > GRID.sensitivity_steps + ALARM * GRID.noise_steps / sqrt(8):
        found.add("one record moves it too far")
    return found


def _deviations(noise: F64) -> float:
    """How far the sum of squares is from that of standard normals, in its standard deviations."""
    return float(abs((noise**2).sum() - noise.size) / sqrt(2 * noise.size))


def right(z: F64, y: I64) -> F64:
    sums = PrototypeSums(GRID)
    sums.add(z, y)
    return sums.release().matrix


def noise_of(share: float) -> Build:
    return lambda z, y: add_noise(exact_sums(z, y, GRID)[0], share * GRID.noise_steps).astype(np.float64)


def no_clipping(z: F64, y: I64) -> F64:
    rows = np.rint(np.column_stack([z / GRID.step, np.full(len(z), GRID.count_steps)])).astype(np.int64)
    return add_noise(class_totals(rows, y, GRID.classes), GRID.noise_steps).astype(np.float64)


def scaled_by_n(z: F64, y: I64) -> F64:
    return noise_of(20 / len(z))(z, y)


def present_only(z: F64, y: I64) -> F64:
    matrix = right(z, y)
    matrix[~np.isin(np.arange(GRID.classes), y)] = 0
    return matrix


def exact_counts(z: F64, y: I64) -> F64:
    matrix = right(z, y)
    matrix[:, -1] = plain_sums(z, y)[:, -1]
    return matrix


@pytest.mark.parametrize(
    ("build", "draws", "expected"),
    [
        (noise_of(0.5), 16, "scale"),
        (noise_of(0.95), 240, "scale"),
        (no_clipping, 16, "one record moves it too far"),
        (scaled_by_n, 16, "scale at 2000 records"),
        (present_only, 16, "classes not held"),
        (exact_counts, 16, "counts"),
    ],
    ids=["half noise", "5 % too little", "no clipping", "scaled by n", "present classes only", "exact counts"],
)
def test_a_planted_fault_is_seen(build: Build, draws: int, expected: str) -> None:
    assert expected in findings(build, draws)


def test_the_right_build_is_not_flagged() -> None:
    assert findings(right, 240) == set()


def test_every_row_and_every_column_has_its_own_full_noise() -> None:
    z, y = records(50)
    exact = plain_sums(z, y)
    noise = np.array([right(z, y) - exact for _ in range(60)]) / GRID.noise_steps
    for axes in ((0, 1), (0, 2)):
        parts = noise.shape[1] * noise.shape[2] // noise.shape[axes[1]]
        squares = (noise**2).sum(axis=axes)
        draws = noise.size // parts
        assert (np.abs(squares - draws) < ALARM * sqrt(2 * draws)).all()
    # independent entries: neighbours are not related, along either axis
    for one, other in ((noise[:, 1:], noise[:, :-1]), (noise[:, :, 1:], noise[:, :, :-1])):
        assert abs((one * other).sum()) / sqrt(one.size) < ALARM


def test_without_noise_it_is_the_methods_class_sums() -> None:
    study = tabular_study(model={"normalise_embedding": True})
    model, data = build(study), blobs(300)
    grid = PrototypeGrid(classes=3, width=8, radius=1.0, count_weight=0.4, noise_multiplier=1.0)
    sums = PrototypeSums(grid)
    for rows, _, embeddings in outputs(model, data.x):
        sums.add(embeddings.numpy(), data.y[rows])
    matrix = sums.release(without_noise_for_tests_only=True).matrix
    expected = class_sums(model, data, 3)
    assert (matrix[:, -1] / grid.count_steps == expected[:, -1]).all()
    # half a step a record; and the clip may take the last digit of a float32 norm of 1
    bound = expected[:, -1:] * (grid.step / 2 + 2**-23)
    assert (np.abs(matrix[:, :-1] * grid.step - expected[:, :-1]) <= bound).all()


def test_no_noise_is_loud_and_has_no_guarantee(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        released = PrototypeSums(GRID).release(without_noise_for_tests_only=True)
    assert released.event == Unprotected()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "WITHOUT NOISE" in caplog.text


def test_a_release_says_what_it_was_and_shows_and_logs_no_number_of_it(caplog: pytest.LogCaptureFixture) -> None:
    sums = PrototypeSums(GRID)
    sums.add(*records(30))
    with caplog.at_level(logging.DEBUG):
        released = sums.release()
    assert released.event == Gaussian(1.5)
    assert released.grid == GRID
    assert released.matrix.dtype == np.float64
    assert (released.matrix == np.rint(released.matrix)).all()
    assert "matrix" not in repr(released)
    assert str(GRID.count_steps) not in repr(sums)
    assert not caplog.records


def test_sums_are_released_once() -> None:
    sums = PrototypeSums(GRID)
    sums.release()
    for again in (sums.release, lambda: sums.add(*records(3))):
        with pytest.raises(ValueError, match="another event"):
            again()


def test_a_bad_record_is_counted_here_and_changes_nothing() -> None:
    z, y = records(6)
    expected, none = exact_sums(z, y, GRID)
    assert none == 0
    z = np.vstack([z, np.full((1, 12), nan), np.full((1, 12), inf), np.tile(z[:1], (5, 1))])
    classes = np.append(y.astype(np.float64), [0, 0, -1, 10, 0.5, nan, 1e300])
    found, bad = exact_sums(z, classes, GRID)
    assert bad == 7
    assert (found == expected).all()
    sums = PrototypeSums(GRID)
    sums.add(z, classes)
    sums.add(z, classes)
    assert sums.bad_records == 14


def test_a_site_without_records_releases_like_any_other() -> None:
    z, y = records(0)
    assert exact_sums(z, y, GRID)[0].tolist() == np.zeros((10, 13)).tolist()
    assert right(z, y).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_any_floating_point_dtype_is_taken(dtype: str) -> None:
    z, y = records(9)
    found, _ = exact_sums(z.astype(dtype), y.astype(np.int16), GRID)
    np.testing.assert_allclose(found * GRID.step, plain_sums(z, y) * GRID.step, atol=0.02)


def test_arrays_that_do_not_fit_are_our_own_mistake() -> None:
    z, y = records(5)
    with pytest.raises(ValueError, match=r"\(n, d\)"):
        exact_sums(z[:, :-1], y, GRID)
    with pytest.raises(ValueError, match=r"\(n,\)"):
        exact_sums(z, y[:-1], GRID)
    with pytest.raises(ValueError, match="floating"):
        exact_sums(y[:, None].repeat(12, axis=1), y, GRID)  # type: ignore[arg-type]  # on purpose


def test_noise_below_the_grid_is_refused_not_released() -> None:
    fine = PrototypeGrid(classes=2, width=3, radius=1.0, count_weight=0.4, noise_multiplier=1e-9)
    with pytest.raises(ValueError, match="steps of the grid"):
        PrototypeSums(fine).release()
