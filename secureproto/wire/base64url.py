"""Bytes as text: base64url without padding (RFC 4648 §5), and one text for one byte string.

Invariant: `decode` refuses whatever `encode` would not have written, for the standard decoder skips foreign
characters and ignores the unused bits of the last one.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from secureproto.errors import Rejected
from secureproto.wire.reasons import Reason


def encode(data: bytes) -> str:
    """The text of data."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of text.

    Raises:
        Rejected: MALFORMED, when the text is not exactly what `encode` writes.
    """
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise Rejected(Reason.MALFORMED, "a field is not base64url") from None
    if encode(data) != text:
        raise Rejected(Reason.MALFORMED, "a field is not in canonical base64url")
    return data
