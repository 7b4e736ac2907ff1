"""How tensors that arrive in pieces lie in arrays.

Invariant: an upload counts only when every element of every tensor was given exactly once (`Coverage`).
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from secureproto.errors import Misconfigured
from secureproto.wire.tensors import Tensor

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float32] | NDArray[np.float64] | NDArray[np.int64]


def published(tensor: Tensor, values: F64 | I64) -> Values:
    """`values` in the tensor's own dtype and shape, as the wire carries it.

    Safe to narrow: a mean of float32 numbers lies between them, so it does not overflow float32.
    """
    return values.astype(tensor.numpy_dtype).reshape(tensor.shape)


class Coverage:
    """Counts what came of one upload: each tensor from its first element to its last, without gap or overlap."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._size = {tensor.name: tensor.elements for tensor in tensors}
        self._filled = dict.fromkeys(self._size, 0)

    def advance(self, name: str, offset: int, count: int) -> None:
        """Note `count` elements of tensor `name` from element `offset` on.

        Raises:
            ValueError: an unknown tensor, or not the elements that come next (the reader's order is broken).
        """
        if name not in self._size:
            raise ValueError(f"tensor {name!r} is not of this layout")
        if offset != self._filled[name] or offset + count > self._size[name]:
            raise ValueError(f"tensor {name!r}: a piece is out of place")
        self._filled[name] += count

    def is_full(self, name: str) -> bool:
        """Whether the whole of one tensor came."""
        return self._filled[name] == self._size[name]

    @property
    def complete(self) -> bool:
        """Whether the whole of every tensor came."""
        return self._filled == self._size


class FlatLayout:
    """Floating-point tensors one after another in one flat vector: a head as (H,) float64.

    Raises:
        Misconfigured: an integer tensor, of which no mixture can be made.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = tuple(tensors)
        self._start: dict[str, int] = {}
        self.size = 0
        for tensor in self.tensors:
            if tensor.dtype == "I64":
                raise Misconfigured(
                    f"model: tensor {tensor.name!r} of the head is an integer, which cannot be mixed",
                    hint="move the module with that buffer into the extractor, or use GroupNorm",
                )
            self._start[tensor.name] = self.size
            self.size += tensor.elements

    def place(self, name: str, offset: int, count: int) -> slice:
        """Where elements `offset` … `offset + count` of tensor `name` lie in the vector."""
        start = self._start[name] + offset
        return slice(start, start + count)

    def flatten(self, arrays: Mapping[str, Values]) -> F64:
        """The vector (H,) of the tensors in `arrays`.

        Raises:
            ValueError: a tensor is missing, or of another shape.
        """
        flat = np.empty(self.size)
        for tensor in self.tensors:
            values = arrays.get(tensor.name)
            if values is None or values.shape != tuple(tensor.shape):
                raise ValueError(f"tensor {tensor.name!r} is missing or of another shape")
            flat[self.place(tensor.name, 0, values.size)] = values.reshape(-1)
        return flat

    def split(self, flat: F64) -> dict[str, Values]:
        """The tensors of a vector (H,), in their own dtypes and shapes."""
        if flat.shape != (self.size,):
            raise ValueError("the vector does not have the layout's length")
        return {t.name: published(t, flat[self.place(t.name, 0, t.elements)]) for t in self.tensors}
