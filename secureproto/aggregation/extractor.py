"""The extractor's mean φ = Σ β_i φ_i with β_i = n_i / Σ n_i, streamed: one pass over each upload.

Invariants: memory is one float64 copy of the extractor (one int64 of its integer buffers) and a small scratch
block, whatever the number of sites; the result does not depend on how an upload is cut into pieces. Float buffers
are averaged like parameters; integer buffers (a counter of batches) take the maximum, also over sites of weight 0.
Source: METHOD "Server side", "Client side" (buffers).

What the caller owes: sites in one fixed order (`round` sorts them), and after an error no further use: a sum that
took half an upload cannot give it back.
"""

from collections.abc import Iterable
from math import isfinite

import numpy as np

from secureproto.aggregation.intake import check_values
from secureproto.aggregation.layout import F64, I64, Coverage, Values
from secureproto.errors import Rejected
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import Tensor

_BLOCK = 32 * 1024  # elements; a block of float64 and its source stay in the second-level cache


class ExtractorMean:
    """For each site `begin`, then `add` its pieces, then `end`; `result` once, after the last."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = tuple(tensors)
        self._floats: dict[str, F64] = {}
        self._integers: dict[str, I64] = {}
        for tensor in self._tensors:
            if tensor.dtype == "I64":
                # the least int64: every maximum is over it
                self._integers[tensor.name] = np.full(tensor.elements, np.iinfo(np.int64).min, dtype=np.int64)
            else:
                self._floats[tensor.name] = np.zeros(tensor.elements)
        self._scratch = np.empty(_BLOCK)
        self._total = 0.0
        self._weight = 0.0
        self._site = ""
        self._coverage: Coverage | None = None

    def begin(self, weight: float, *, site: str) -> None:
        """Start the upload of `site` with weight n_i >= 0.

        Raises:
            ValueError: a weight that is negative or not finite, or the upload before has not ended.
        """
        if self._coverage is not None:
            raise ValueError("the upload before has not ended")
        if not isfinite(weight) or weight < 0:
            raise ValueError("a weight is a finite number from 0 on")
        self._weight, self._site = weight, site
        self._coverage = Coverage(self._tensors)

    def add(self, name: str, offset: int, values: Values) -> None:
        """Elements of tensor `name` from element `offset` on, 1-D.

        Raises:
            Rejected: NON_FINITE or NORM_BOUND, naming site and tensor.
            ValueError: no upload has begun, or a piece is out of place.
        """
        if self._coverage is None:
            raise ValueError("no upload has begun")
        self._coverage.advance(name, offset, values.size)
        stop = offset + values.size
        if name in self._integers:
            target = self._integers[name][offset:stop]
            np.maximum(target, values, out=target, casting="same_kind")
            return
        check_values(values, site=self._site, what=f"tensor {name!r}")
        self._accumulate(self._floats[name][offset:stop], values)

    def _accumulate(self, target: F64, values: Values) -> None:
        for start in range(0, values.size, _BLOCK):
            block = values[start : start + _BLOCK]
            scaled = self._scratch[: block.size]
            np.multiply(block, self._weight, out=scaled, dtype=np.float64)
            target[start : start + _BLOCK] += scaled

    def end(self) -> None:
        """The upload is over.

        Raises:
            Rejected: SCHEMA, when a part of a tensor did not come.
            ValueError: no upload has begun.
        """
        if self._coverage is None:
            raise ValueError("no upload has begun")
        if not self._coverage.complete:
            raise Rejected(Reason.SCHEMA, f"site {self._site!r}: the upload ends before its last tensor")
        self._total += self._weight
        self._coverage = None

    def result(self) -> dict[str, F64 | I64]:
        """The mean, each tensor in its shape, float64 (int64 for integer buffers). Ends the object's use.

        The arrays are the accumulators themselves, divided in place: no second copy of the model is made.

        Raises:
            Rejected: SCHEMA, when no site of the round holds a record: such a mean does not exist.
            ValueError: an upload has not ended.
        """
        if self._coverage is not None:
            raise ValueError("the upload has not ended")
        if self._total == 0:
            raise Rejected(Reason.SCHEMA, "no site of the round holds a record", hint="open the round with others")
        for values in self._floats.values():
            values /= self._total
        flat: dict[str, F64 | I64] = {**self._floats, **self._integers}
        return {tensor.name: flat[tensor.name].reshape(tensor.shape) for tensor in self._tensors}
