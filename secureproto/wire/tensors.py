"""Tensors as bytes: the safetensors layout, of which the whole header is known beforehand.

Invariants: names, dtypes, shapes and order are agreed before anything is sent, so the header is compared byte for
byte and no parser runs on a peer's input; the data follow without gap or overlap, little-endian; a reader holds one
incomplete element at the most. Any safetensors reader opens what `encode` writes.
Source: SPEC.md, The tensor body.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from secureproto.errors import Rejected
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason

Dtype = Literal["F32", "F64", "I64"]
DTYPES: dict[Dtype, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8")}
Array = NDArray[Any]

_ALIGNMENT = 8  # of the largest element: a whole body that is mapped or viewed is aligned


@dataclass(frozen=True)
class Tensor:
    """One tensor: its name, dtype and shape."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return DTYPES[self.dtype]

    @property
    def length(self) -> int:
        """Bytes of its data."""
        return self.elements * self.numpy_dtype.itemsize


@dataclass(frozen=True)
class TensorSchema:
    """The tensors of a body, in the order in which they are sent.

    Raises:
        ValueError: two of one name, a name that safetensors reserves, a negative dimension.
    """

    tensors: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        names = [tensor.name for tensor in self.tensors]
        if len(set(names)) != len(names) or "__metadata__" in names:
            raise ValueError("tensor names must be unique and not __metadata__")
        if any(size < 0 for tensor in self.tensors for size in tensor.shape):
            raise ValueError("a dimension is negative")

    @cached_property
    def header(self) -> bytes:
        """The only header that a body of this schema has: 8 bytes of length, then JSON padded with spaces."""
        entries: dict[str, dict[str, object]] = {}
        end = 0
        for tensor in self.tensors:
            start, end = end, end + tensor.length
            shape = list(tensor.shape)
            entries[tensor.name] = {"dtype": tensor.dtype, "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(entries, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        return len(text).to_bytes(8, "little") + text

    @cached_property
    def plaintext_length(self) -> int:
        """Bytes of a body: header and data."""
        return len(self.header) + sum(tensor.length for tensor in self.tensors)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the header, which says all of the schema."""
        return sha256(self.header).hexdigest()


@dataclass(frozen=True)
class Piece:
    """Consecutive elements of one tensor, in C order, the first at `offset` (counted in elements).

    `values` is a read-only view (1-D) of the bytes that were fed, perhaps not aligned: copy it to keep it.
    """

    tensor: Tensor
    offset: int
    values: Array


def encode(schema: TensorSchema, arrays: Mapping[str, Array]) -> Iterator[memoryview]:
    """The body of these arrays in chunks of at most 1 MiB: the header, then the tensors in the schema's order.

    Raises:
        ValueError: a name, dtype or shape is not the schema's (before the first chunk).
    """
    if set(arrays) != {tensor.name for tensor in schema.tensors}:
        raise ValueError("the arrays' names are not the schema's")
    for tensor in schema.tensors:
        array = arrays[tensor.name]
        if array.dtype != tensor.numpy_dtype or array.shape != tensor.shape:
            raise ValueError(f"{tensor.name} is {array.dtype} {array.shape}, not {tensor.dtype} {tensor.shape}")
    return _chunks(schema, arrays)


class TensorReader:
    """Takes a body in chunks of any size and gives its tensors piece by piece; holds no more than 7 bytes.

    `feed` as often as needed, then `finish` once. What came out is a whole body of the schema when `finish` returned.
    """

    def __init__(self, schema: TensorSchema) -> None:
        self._schema = schema
        self._header_seen = 0
        self._left = iter([tensor for tensor in schema.tensors if tensor.elements])
        self._tensor: Tensor | None = next(self._left, None)
        self._offset = 0  # in elements of the present tensor
        self._carry = b""  # the beginning of an element

    def feed(self, data: bytes | bytearray | memoryview) -> list[Piece]:
        """The pieces in the next bytes of the body.

        Raises:
            Rejected: SCHEMA, when the header is not the schema's or the body is too long.
        """
        view = self._compare_header(memoryview(data).cast("B"))
        pieces: list[Piece] = []
        while len(view):
            if self._tensor is None:
                raise Rejected(Reason.SCHEMA, "the body is longer than its schema")
            view = self._take(self._tensor, view, pieces)
        return pieces

    def finish(self) -> None:
        """Check that the body was whole. Raises Rejected(SCHEMA)."""
        if self._header_seen < len(self._schema.header) or self._tensor is not None:
            raise Rejected(Reason.SCHEMA, "the body is shorter than its schema")

    def _compare_header(self, view: memoryview) -> memoryview:
        """Compare what is left of the header; give what follows it."""
        expected = self._schema.header[self._header_seen : self._header_seen + len(view)]
        if view[: len(expected)] != expected:
            raise Rejected(Reason.SCHEMA, "the body's header is not the one of its schema")
        self._header_seen += len(expected)
        return view[len(expected) :]

    def _take(self, tensor: Tensor, view: memoryview, pieces: list[Piece]) -> memoryview:
        """Take an element begun before, or as many whole ones as there are, or the beginning of one."""
        size = tensor.numpy_dtype.itemsize
        if self._carry or len(view) < size:
            missing = size - len(self._carry)
            self._carry += view[:missing].tobytes()
            view = view[missing:]
            if len(self._carry) == size:
                pieces.append(self._piece(tensor, self._carry, 1))
                self._carry = b""
            return view
        count = min(len(view) // size, tensor.elements - self._offset)
        pieces.append(self._piece(tensor, view[: count * size].toreadonly(), count))
        return view[count * size :]

    def _piece(self, tensor: Tensor, data: bytes | memoryview, count: int) -> Piece:
        piece = Piece(tensor, self._offset, np.frombuffer(data, tensor.numpy_dtype, count))
        self._offset += count
        if self._offset == tensor.elements:
            self._tensor, self._offset = next(self._left, None), 0
        return piece


def read_all(schema: TensorSchema, data: bytes | memoryview) -> dict[str, Array]:
    """All tensors of a body, as arrays of their own (writable, aligned).

    Raises:
        Rejected: SCHEMA.
    """
    arrays = {tensor.name: np.empty(tensor.elements, tensor.numpy_dtype) for tensor in schema.tensors}
    reader = TensorReader(schema)
    for piece in reader.feed(data):
        arrays[piece.tensor.name][piece.offset : piece.offset + len(piece.values)] = piece.values
    reader.finish()
    return {tensor.name: arrays[tensor.name].reshape(tensor.shape) for tensor in schema.tensors}


def check_finite(piece: Piece) -> None:
    """Check that no value is NaN or infinite. Raises Rejected(NON_FINITE)."""
    if not np.isfinite(piece.values).all():
        raise Rejected(Reason.NON_FINITE, f"{piece.tensor.name} has a value that is not finite")


def _chunks(schema: TensorSchema, arrays: Mapping[str, Array]) -> Iterator[memoryview]:
    yield from _split(memoryview(schema.header))
    for tensor in schema.tensors:
        flat = np.ascontiguousarray(arrays[tensor.name]).reshape(-1)
        if flat.size:  # numpy gives no byte view of nothing
            yield from _split(flat.view(np.uint8).data)


def _split(view: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(view), LIMITS.chunk):
        yield view[start : start + LIMITS.chunk]
