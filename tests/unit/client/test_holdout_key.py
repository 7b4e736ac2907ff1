"""The hold-out key of a site: made once, private, and never replaced."""

import stat
from pathlib import Path

import pytest

from secureproto.errors import Misconfigured
from secureproto_client.holdout_key import read_or_make_key


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "hold-out.key"
    key = read_or_make_key(path)
    assert len(key) == 32
    assert read_or_make_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_key_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "hold-out.key"
    path.write_bytes(b"short")
    with pytest.raises(Misconfigured, match="is not a hold-out key"):
        read_or_make_key(path)
    assert path.read_bytes() == b"short"
    with pytest.raises(Misconfigured, match="cannot be read"):
        read_or_make_key(tmp_path)
