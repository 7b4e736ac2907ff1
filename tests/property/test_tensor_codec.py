"""The tensor codec: every body of a schema comes back, and no other byte string is one."""

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from secureproto.errors import Rejected
from secureproto.wire.tensors import DTYPES, Dtype, Tensor, TensorReader, TensorSchema, encode, read_all
from support import second_format as form

Arrays = dict[str, np.ndarray[Any, Any]]
_NAMES = st.text("abcXYZ019._", min_size=1, max_size=12)
_SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[TensorSchema, Arrays]:
    dtypes: list[Dtype] = ["F32", "F64", "I64"]
    names = draw(st.lists(_NAMES, max_size=5, unique=True))
    tensors = tuple(Tensor(name, draw(st.sampled_from(dtypes)), draw(_SHAPES)) for name in names)
    values = {tensor.name: draw(arrays(DTYPES[tensor.dtype], tensor.shape)) for tensor in tensors}
    return TensorSchema(tensors), values


@given(bodies())
def test_a_body_comes_back_and_the_second_form_agrees(body: tuple[TensorSchema, Arrays]) -> None:
    schema, values = body
    data = b"".join(encode(schema, values))
    described = [(tensor.name, tensor.dtype, tensor.shape) for tensor in schema.tensors]
    assert schema.header == form.tensor_header(described)
    assert len(data) == schema.plaintext_length
    again = read_all(schema, data)
    assert list(again) == [tensor.name for tensor in schema.tensors]
    for tensor in schema.tensors:
        array = again[tensor.name]
        assert array.shape == tensor.shape
        assert array.dtype == tensor.numpy_dtype
        assert array.tobytes() == values[tensor.name].tobytes()
        assert array.flags.writeable
        assert array.flags.aligned


@given(bodies(), st.data())
def test_pieces_do_not_depend_on_where_the_stream_is_cut(
    body: tuple[TensorSchema, Arrays], data: st.DataObject
) -> None:
    schema, values = body
    whole = b"".join(encode(schema, values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    reader, collected = TensorReader(schema), {tensor.name: b"" for tensor in schema.tensors}
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        for piece in reader.feed(whole[start:end]):
            assert piece.offset * piece.values.itemsize == len(collected[piece.tensor.name])
            assert not piece.values.flags.writeable
            collected[piece.tensor.name] += piece.values.tobytes()
    reader.finish()
    assert collected == {name: array.tobytes() for name, array in values.items()}


@given(bodies(), st.data())
def test_any_byte_of_the_header_changed_is_refused(body: tuple[TensorSchema, Arrays], data: st.DataObject) -> None:
    schema, values = body
    whole = bytearray(b"".join(encode(schema, values)))
    index = data.draw(st.integers(0, len(schema.header) - 1))
    whole[index] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Rejected, match="header"):
        read_all(schema, bytes(whole))


@given(bodies(), st.data())
def test_any_other_length_is_refused(body: tuple[TensorSchema, Arrays], data: st.DataObject) -> None:
    schema, values = body
    whole = b"".join(encode(schema, values))
    shorter = whole[: data.draw(st.integers(0, len(whole) - 1))]
    longer = whole + data.draw(st.binary(min_size=1, max_size=20))
    for wrong in (shorter, longer):
        with pytest.raises(Rejected, match=r"shorter|longer"):
            read_all(schema, wrong)


@given(bodies())
def test_a_header_is_aligned_json(body: tuple[TensorSchema, Arrays]) -> None:
    header = body[0].header
    (length,) = struct.unpack("<Q", header[:8])
    assert len(header) == 8 + length
    assert length % 8 == 0
    assert set(json.loads(header[8:])) == {tensor.name for tensor in body[0].tensors}


@given(bodies(), bodies())
def test_two_schemas_have_two_digests(one: tuple[TensorSchema, Arrays], other: tuple[TensorSchema, Arrays]) -> None:
    assert (one[0].digest == other[0].digest) == (one[0] == other[0])
