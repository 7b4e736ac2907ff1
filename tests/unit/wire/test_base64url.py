"""Base64url: one text for one byte string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.errors import Rejected
from secureproto.wire import base64url


@given(st.binary(max_size=50))
def test_bytes_come_back(data: bytes) -> None:
    text = base64url.encode(data)
    assert base64url.decode(text) == data
    assert not set(text) & set("+/=\n")


@pytest.mark.parametrize("text", ["AA==", "AB", "A", "A+A_", "A A_", "AAAA\n", "ÄÄÄÄ", "AA=A"])
def test_other_texts_of_the_same_bytes_are_refused(text: str) -> None:
    with pytest.raises(Rejected, match="base64url"):
        base64url.decode(text)
