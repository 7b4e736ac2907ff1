"""The tensor codec beside its properties: misuse, chunk sizes, memory, agreement with safetensors."""

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as safetensors_load

from secureproto.errors import Rejected
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import Piece, Tensor, TensorReader, TensorSchema, check_finite, encode, read_all

SCHEMA = TensorSchema((Tensor("a", "F64", (2, 2)), Tensor("b", "F32", (3,)), Tensor("n", "I64", ())))
Arrays = dict[str, np.ndarray[Any, Any]]


def arrays() -> Arrays:
    return {
        "a": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "b": np.array([5.0, 6.0, 7.0], np.float32),
        "n": np.array(8),
    }


def test_a_safetensors_reader_opens_a_body() -> None:
    # an own order of dtypes, which the format allows: data follow the offsets
    opened = safetensors_load(b"".join(encode(SCHEMA, arrays())))
    assert {name: array.tolist() for name, array in opened.items()} == {
        name: array.tolist() for name, array in arrays().items()
    }


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("a", np.zeros(4)),
        ("a", np.zeros((2, 2), np.float32)),
        ("a", np.zeros((2, 2), ">f8")),
        ("n", np.zeros((1,), np.int64)),
    ],
)
def test_arrays_that_do_not_fit_are_refused_before_a_byte_is_made(name: str, wrong: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{name} is "):
        encode(SCHEMA, arrays() | {name: wrong})


def test_missing_and_foreign_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="names"):
        encode(SCHEMA, {name: array for name, array in arrays().items() if name != "b"})
    with pytest.raises(ValueError, match="names"):
        encode(SCHEMA, arrays() | {"c": np.zeros(1)})


@pytest.mark.parametrize(
    "tensors",
    [
        (Tensor("a", "F32", (1,)), Tensor("a", "F64", (1,))),
        (Tensor("__metadata__", "F32", (1,)),),
        (Tensor("a", "F32", (-1,)),),
    ],
)
def test_impossible_schemas_are_refused(tensors: tuple[Tensor, ...]) -> None:
    with pytest.raises(ValueError, match=r"unique|negative"):
        TensorSchema(tensors)


def test_the_order_of_memory_does_not_show() -> None:
    transposed = np.asfortranarray(arrays()["a"])
    assert b"".join(encode(SCHEMA, arrays() | {"a": transposed})) == b"".join(encode(SCHEMA, arrays()))


def test_chunks_are_bounded_and_share_the_arrays_memory() -> None:
    schema = TensorSchema((Tensor("w", "F32", (700_000,)),))
    values = np.arange(700_000, dtype=np.float32)
    chunks = list(encode(schema, {"w": values}))
    assert [len(chunk) for chunk in chunks] == [
        len(schema.header),
        LIMITS.chunk,
        LIMITS.chunk,
        2_800_000 - 2 * LIMITS.chunk,
    ]
    assert np.shares_memory(np.frombuffer(chunks[1], np.float32), values)


def test_pieces_are_views_of_what_was_fed() -> None:
    body = b"".join(encode(SCHEMA, arrays()))
    pieces = TensorReader(SCHEMA).feed(body)
    assert [(piece.tensor.name, piece.offset, len(piece.values)) for piece in pieces] == [
        ("a", 0, 4),
        ("b", 0, 3),
        ("n", 0, 1),
    ]
    assert all(np.shares_memory(piece.values, np.frombuffer(body, np.uint8)) for piece in pieces)


def test_a_writable_buffer_can_be_fed_and_is_not_written_to() -> None:
    body = bytearray(b"".join(encode(SCHEMA, arrays())))
    assert not any(piece.values.flags.writeable for piece in TensorReader(SCHEMA).feed(body))


def test_a_schema_of_nothing_has_a_body() -> None:
    empty = TensorSchema(())
    assert b"".join(encode(empty, {})) == b"\x08\0\0\0\0\0\0\0{}      "
    assert read_all(empty, empty.header) == {}


def test_integers_are_always_finite_and_refusals_name_the_tensor_only() -> None:
    check_finite(Piece(Tensor("n", "I64", (1,)), 0, np.array([2**62])))
    with pytest.raises(Rejected) as caught:
        check_finite(Piece(Tensor("w", "F32", (2,)), 0, np.array([123.5, np.inf], np.float32)))
    assert caught.value.reason is Reason.NON_FINITE
    assert caught.value.message == "w has a value that is not finite"
