"""Records ready for training: an array of inputs and their class indices. No torch here.

Invariants: x is float32 with the record as first axis, y is int64 of the same length; both are C-contiguous and
belong to the holder. A set may be empty: a site may hold out nothing, or have nothing of a class.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Records:
    """x: (n, features) or (n, channels, height, width) float32; y: (n,) int64, indices into `study.classes`.

    Raises:
        ValueError: other dtypes, lengths that differ, or no axis of features.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.x.dtype != np.float32 or self.y.dtype != np.int64:
            raise ValueError("records are float32 inputs and int64 labels")
        if self.x.ndim < 2 or self.y.ndim != 1 or len(self.x) != len(self.y):
            raise ValueError("records are n inputs of at least one axis, and n labels")

    def __len__(self) -> int:
        return len(self.y)
