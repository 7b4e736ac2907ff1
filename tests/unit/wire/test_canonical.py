"""Canonical bytes: one value, one encoding."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.errors import Rejected
from secureproto.wire import canonical
from secureproto.wire.reasons import Reason

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-canonical.MAX_INTEGER, canonical.MAX_INTEGER) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_comes_back_from_its_only_encoding(value: object) -> None:
    data = canonical.encode(value)
    assert canonical.decode(data) == value
    assert canonical.encode(canonical.decode(data)) == data


@given(VALUES, st.integers(0, 3))
def test_another_spelling_of_the_same_value_is_refused(value: object, indent: int) -> None:
    other = json.dumps({"k": value}, indent=indent, ensure_ascii=True).encode()
    if other == canonical.encode({"k": value}):
        return
    with pytest.raises(Rejected) as caught:
        canonical.decode(other)
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}',
        b'{"b":1,"a":2}',
        b"1.0",
        b"1e3",
        b"NaN",
        b"Infinity",
        b"-0",
        b"9007199254740992",
        b' {"a":1}',
        b'{"a":1}\n',
        b'"\\u00e9"',
        b"\xff",
        b"",
        b"[" * 100_000,
        b"[" * 20 + b"]" * 20,
        b'"\\ud800"',
    ],
    ids=lambda data: repr(data[:16]),
)
def test_bytes_that_encode_would_not_write_are_malformed(data: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        canonical.decode(data)
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.parametrize("value", [1.5, {1: 2}, b"x", {"a": object()}, 2**53, "\ud800"])
def test_what_has_no_canonical_form_is_our_own_mistake(value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several messages
        canonical.encode(value)


def test_length_prefixes_keep_lists_of_parts_apart() -> None:
    assert canonical.length_prefixed(b"ab", b"c") != canonical.length_prefixed(b"a", b"bc")
    assert canonical.labelled_digest("a", b"bc") != canonical.labelled_digest("ab", b"c")
