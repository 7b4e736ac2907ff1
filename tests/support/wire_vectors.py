"""Vectors of wire/SPEC.md, made with the second form of the format: one attack or property each."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from support import second_format as form

Vector = dict[str, Any]
TENSORS: Sequence[tuple[str, str, list[int]]] = (
    ("prototypes", "F64", [2, 3]),
    ("head.weight", "F32", [1, 3]),
    ("extractor.steps", "I64", []),
    ("extractor.bias", "F32", [2]),
)
VALUES: dict[str, list[float]] = {
    "prototypes": [1.5, -2.25, 4.0, 0.0, -0.0, 12.0],
    "head.weight": [0.5, 1e-45, -3.0],
    "extractor.steps": [2**40],
    "extractor.bias": [1.0, 3.4e38],
}
BODY = form.tensor_body(TENSORS, VALUES)
HEADER = form.tensor_header(TENSORS)
MODEL: dict[str, Any] = {
    "classes": 2,
    "embedding_width": 3,
    "extractor": [{"name": "0.weight", "dtype": "F32", "shape": [3, 5]}, {"name": "n", "dtype": "I64", "shape": []}],
    "head": [{"name": "weight", "dtype": "F32", "shape": [2, 3]}, {"name": "bias", "dtype": "F32", "shape": [2]}],
    "reports_loss": True,
}


def bodies() -> Iterator[tuple[str, Vector]]:
    """Tensor bodies for one schema."""
    reordered = form.tensor_body((TENSORS[1], TENSORS[0], *TENSORS[2:]), VALUES)
    renamed = BODY.replace(b"extractor.bias", b"extractor.bia5")
    reshaped = BODY.replace(b"[2,3]", b"[3,2]")
    spaced = struct.pack("<Q", len(HEADER)) + HEADER[8:] + b" " * 8 + BODY[len(HEADER) :]
    many = struct.pack("<Q", 2**62) + HEADER[8:]
    nan, infinity = dict(VALUES), dict(VALUES)
    nan["prototypes"] = [float("nan"), *VALUES["prototypes"][1:]]
    infinity["extractor.bias"] = [float("-inf"), 1.0]
    cases = {
        "tensor_body": ("accepted", "the plain case", BODY),
        "header_with_tensors_reordered": ("schema", "valid safetensors of other order", reordered),
        "header_with_a_tensor_renamed": ("schema", "valid safetensors with another name", renamed),
        "header_with_a_shape_transposed": ("schema", "same bytes, other meaning", reshaped),
        "header_with_more_padding": ("schema", "valid safetensors, a second encoding of the same", spaced),
        "header_that_claims_2_to_the_62_bytes": ("schema", "a parser would allocate; a comparison does not", many),
        "body_cut_inside_the_header": ("schema", "truncation", BODY[:20]),
        "body_cut_inside_a_number": ("schema", "truncation", BODY[:-3]),
        "body_of_nothing": ("schema", "truncation", b""),
        "body_with_a_byte_too_many": ("schema", "extension", BODY + b"\x00"),
        "body_twice": ("schema", "extension", BODY + BODY),
        "body_with_nan": ("non_finite", "NaN poisons every mean", form.tensor_body(TENSORS, nan)),
        "body_with_infinity": ("non_finite", "as NaN", form.tensor_body(TENSORS, infinity)),
    }
    schema = [list(tensor) for tensor in TENSORS]
    for name, (expect, why, body) in cases.items():
        vector = {"name": name, "why": why, "expect": expect, "schema": schema, "body": body.hex()}
        yield f"wire/tensors/{name}.json", vector | {"values": VALUES if expect == "accepted" else {}}


def layouts() -> Iterator[tuple[str, Vector]]:
    """The three headers that one model schema fixes."""
    head = [(f"head.{entry['name']}", entry["dtype"], entry["shape"]) for entry in MODEL["head"]]
    extractor = [(f"extractor.{entry['name']}", entry["dtype"], entry["shape"]) for entry in MODEL["extractor"]]
    upload = [("prototypes", "F64", [2, 4]), ("loss", "F64", [1]), *head, *extractor]
    shared = [("prototypes", "F64", [2, 3]), ("prototype_age", "I64", [2]), *extractor]
    yield (
        "wire/layouts/headers_of_one_model.json",
        {
            "name": "headers_of_one_model",
            "why": "the model schema alone fixes the three headers",
            "model": MODEL,
            "upload": form.tensor_header(upload).hex(),
            "shared": form.tensor_header(shared).hex(),
            "head": form.tensor_header(head).hex(),
        },
    )


def canonical_forms() -> Iterator[tuple[str, Vector]]:
    """Byte strings that are canonical, and near ones that are not."""
    value = {"b": [1, -2, True, None], "a": {"é": 'x"\n\\\u0001/', "": []}, "n": 2**53 - 1}
    good = form.canonical(value)
    cases: dict[str, tuple[str, str, bytes]] = {
        "canonical_value": ("accepted", "nesting, escapes, accents, the largest integer", good),
        "key_twice": ("malformed", "two readers may keep different ones", b'{"a":1,"a":1}'),
        "keys_not_sorted": ("malformed", "a second encoding", b'{"b":1,"a":2}'),
        "white_space": ("malformed", "a second encoding", b'{"a": 1}'),
        "trailing_newline": ("malformed", "a second encoding", good + b"\n"),
        "escaped_letter": ("malformed", "a second encoding of é", b'{"a":"\\u00e9"}'),
        "escaped_slash": ("malformed", "a second encoding of /", b'{"a":"\\/"}'),
        "float": ("malformed", "readers round differently", b'{"a":1.0}'),
        "exponent": ("malformed", "an integer in a float's clothes", b'{"a":1e3}'),
        "minus_zero": ("malformed", "a second encoding of 0", b'{"a":-0}'),
        "integer_over_2_to_the_53": ("malformed", "JavaScript and jq round it", b'{"a":9007199254740992}'),
        "not_a_number": ("malformed", "not JSON, though Python reads it", b'{"a":NaN}'),
        "lone_surrogate": ("malformed", "no UTF-8 for it", b'{"a":"\\ud800"}'),
        "byte_order_mark": ("malformed", "a second encoding", b"\xef\xbb\xbf{}"),
        "utf_16": ("malformed", "a second encoding", '{"a":1}'.encode("utf-16-le")),
        "not_utf_8": ("malformed", "not text", b'{"a":"\xff"}'),
        "nested_100_deep": ("malformed", "recursion is bounded", b"[" * 100 + b"]" * 100),
        "nothing": ("malformed", "not a value", b""),
    }
    for name, (expect, why, data) in cases.items():
        vector = {"name": name, "why": why, "expect": expect, "bytes": data.hex()}
        yield f"wire/canonical/{name}.json", vector | {"value": value if expect == "accepted" else None}
