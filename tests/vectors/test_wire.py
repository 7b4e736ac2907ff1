"""The committed vectors of wire/SPEC.md against the product."""

from typing import Any

import numpy as np
import pytest

from secureproto.errors import Rejected
from secureproto.wire import canonical, tensors
from secureproto.wire.layouts import head_schema, shared_schema, upload_schema
from secureproto.wire.messages import ModelSchema
from secureproto.wire.tensors import Tensor, TensorReader, TensorSchema
from support.vectors import ROOT, Vector, load, made


def _name(vector: Vector) -> str:
    return str(vector["name"])


def test_the_second_form_of_the_format_makes_the_committed_vectors() -> None:
    committed = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for room in ("wire", "crypto")
        for path in (ROOT / room).rglob("*.json")
    }
    assert committed == made()


@pytest.mark.parametrize("vector", load("wire/canonical"), ids=_name)
def test_canonical(vector: Vector) -> None:
    data = bytes.fromhex(vector["bytes"])
    if vector["expect"] == "accepted":
        assert canonical.decode(data) == vector["value"]
        assert canonical.encode(vector["value"]) == data
    else:
        with pytest.raises(Rejected) as caught:
            canonical.decode(data)
        assert caught.value.reason == vector["expect"]


@pytest.mark.parametrize("vector", load("wire/tensors"), ids=_name)
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_tensors(vector: Vector, step: int) -> None:
    schema = TensorSchema(tuple(Tensor(name, dtype, tuple(shape)) for name, dtype, shape in vector["schema"]))
    body = bytes.fromhex(vector["body"])
    if vector["expect"] != "accepted":
        with pytest.raises(Rejected) as caught:
            _read(schema, body, step)
        assert caught.value.reason == vector["expect"]
        return
    assert schema.plaintext_length == len(body)
    arrays: dict[str, Any] = {
        tensor.name: np.array(vector["values"][tensor.name], tensor.numpy_dtype).reshape(tensor.shape)
        for tensor in schema.tensors
    }
    assert b"".join(tensors.encode(schema, arrays)) == body
    values = _read(schema, body, step)
    assert {name: array.tobytes() for name, array in arrays.items()} == values


@pytest.mark.parametrize("vector", load("wire/layouts"), ids=_name)
def test_layouts(vector: Vector) -> None:
    model = ModelSchema.parse(canonical.encode(vector["model"]))
    assert upload_schema(model).header.hex() == vector["upload"]
    assert shared_schema(model).header.hex() == vector["shared"]
    assert head_schema(model).header.hex() == vector["head"]


def _read(schema: TensorSchema, body: bytes, step: int) -> dict[str, bytes]:
    reader, values = TensorReader(schema), {tensor.name: b"" for tensor in schema.tensors}
    for start in range(0, len(body), step):
        for piece in reader.feed(body[start : start + step]):
            tensors.check_finite(piece)
            assert len(values[piece.tensor.name]) == piece.offset * piece.values.itemsize
            values[piece.tensor.name] += piece.values.tobytes()
    reader.finish()
    return values
