"""Feature shift: the same classes look different from site to site (another scanner, another laboratory).

A site's inputs are x' = gain · x + offset, and images may be turned by quarters. Source: "feature distribution skew"
of Kairouz et al., "Advances and Open Problems in Federated Learning", 2021, section 3.1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Shift:
    """How one site's inputs differ. `quarter_turns` turns square images (n, channels, side, side) by 90° each."""

    gain: float = 1.0
    offset: float = 0.0
    quarter_turns: int = 0

    def apply(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, …) float32 → the same shape, C-contiguous.

        Raises:
            ValueError: quarter turns of records that are not square images.
        """
        if self.quarter_turns:
            if x.ndim != 4 or x.shape[2] != x.shape[3]:
                raise ValueError("only square images can be turned by quarters")
            x = np.rot90(x, self.quarter_turns, axes=(2, 3))
        return np.ascontiguousarray(np.float32(self.gain) * x + np.float32(self.offset), dtype=np.float32)
