"""Canonical bytes: one value, one encoding.

A restricted JSON in the manner of RFC 8785: keys sorted by code point (its order differs only above U+FFFF), no
white space, UTF-8, integers only and below 2^53 in magnitude, no floats. `decode` refuses every byte string that
`encode` would not have written, so two parties can never read different things out of the same signed bytes, or
sign one thing in two forms.
"""

import json
from hashlib import sha256
from typing import NoReturn

from secureproto.errors import Rejected
from secureproto.wire.reasons import Reason

JSON = None | bool | int | str | list["JSON"] | dict[str, "JSON"]

MAX_INTEGER = 2**53 - 1  # the largest that every JSON reader keeps exactly
MAX_DEPTH = 16  # our deepest message has 5; json's own recursion is bounded by it


def encode(value: object) -> bytes:
    """The canonical bytes of a value of str, int, bool, None, list or tuple, and dict with str keys.

    Raises:
        ValueError: a float, a large integer, another type, or nesting over MAX_DEPTH.
    """
    _check(value, 0)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def decode(data: bytes) -> "JSON":
    """The value of canonical bytes.

    Raises:
        Rejected: MALFORMED, when the bytes are not exactly what `encode` writes.
    """
    try:
        value: JSON = json.loads(data, parse_float=_refuse, parse_constant=_refuse)
        again = encode(value)
    except (ValueError, RecursionError):
        raise Rejected(Reason.MALFORMED, "not canonical JSON") from None
    if again != data:
        raise Rejected(Reason.MALFORMED, "JSON is not in canonical form")
    return value


def length_prefixed(*parts: bytes) -> bytes:
    """Each part behind its length (4 bytes, big-endian): no two lists of parts give the same bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def labelled_digest(label: str, data: bytes) -> str:
    """Hex SHA-256 of data under a domain-separation label, so that a digest means one kind of thing only."""
    return sha256(length_prefixed(label.encode(), data)).hexdigest()


def _refuse(_: str) -> NoReturn:
    raise ValueError("no floats")


def _check(value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    match value:
        case None | bool() | str():
            return
        case int():
            if abs(value) > MAX_INTEGER:
                raise ValueError("integer over 2^53 - 1")
        case list() | tuple():
            for item in value:
                _check(item, depth + 1)
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise ValueError("keys must be strings")  # noqa: TRY004 - one family for one caller
                _check(item, depth + 1)
        case _:
            raise ValueError(f"{type(value).__name__} has no canonical form")
