"""Feature shift: gain before offset, turns of images against a loop over their pixels, and what cannot be turned."""

import numpy as np
import pytest

from secureproto.simulation.shift import Shift


def test_the_gain_is_of_the_input_and_the_offset_comes_after() -> None:
    found = Shift(gain=2.0, offset=0.5).apply(np.array([[1.0, -3.0]], np.float32))
    assert found.tolist() == [[2.5, -5.5]]
    assert found.dtype == np.float32
    assert found.flags.c_contiguous


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turns_are_by_a_quarter_against_the_clock(turns: int) -> None:
    x = np.arange(2 * 2 * 3 * 3, dtype=np.float32).reshape(2, 2, 3, 3)
    expected = x.copy()
    for _ in range(turns):
        turned = np.empty_like(expected)
        for row in range(3):
            for column in range(3):
                turned[:, :, 2 - column, row] = expected[:, :, row, column]
        expected = turned
    found = Shift(gain=2.0, offset=1.0, quarter_turns=turns).apply(x)
    np.testing.assert_array_equal(found, 2 * expected + 1)
    assert found.flags.c_contiguous


@pytest.mark.parametrize("shape", [(2, 5), (2, 1, 3, 4)])
def test_only_square_images_can_be_turned(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    with pytest.raises(ValueError, match="only square images"):
        Shift(quarter_turns=1).apply(x)
    np.testing.assert_array_equal(Shift(gain=3.0).apply(x), x)
