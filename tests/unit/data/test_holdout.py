"""The keyed division: fixed by id and key alone, and near its share."""

import hmac
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.data.holdout import HoldOut, Side, given_side
from secureproto.study.features import BadRecord

KEY = bytes(range(32))


@given(st.lists(st.text(min_size=1), max_size=30), st.lists(st.text(min_size=1), max_size=30), st.floats(0, 0.99))
def test_added_records_move_none(before: list[str], added: list[str], share: float) -> None:
    sides = {name: HoldOut(share, KEY).side(name) for name in before}
    again = HoldOut(share, KEY)
    more = {name: again.side(name) for name in [*added, *reversed(before)]}
    assert all(more[name] is side for name, side in sides.items())


def test_the_side_is_that_of_the_specified_hash() -> None:
    label, name = b"secureproto/v1/hold-out", b"p7"
    image = len(label).to_bytes(4, "big") + label + len(name).to_bytes(4, "big") + name
    place = int.from_bytes(hmac.new(KEY, image, sha256).digest()[:8], "big") / 2**64
    assert HoldOut(place + 1e-9, KEY).side("p7") is Side.TEST
    assert HoldOut(place - 1e-9, KEY).side("p7") is Side.TRAIN


def test_another_key_divides_otherwise() -> None:
    names = [str(number) for number in range(200)]
    one, other = HoldOut(0.5, KEY), HoldOut(0.5, bytes(32))
    assert [one.side(name) for name in names] != [other.side(name) for name in names]


def test_the_share_is_met() -> None:
    hold_out = HoldOut(0.2, KEY)
    held = sum(hold_out.side(str(number)) is Side.TEST for number in range(10_000))
    assert 1_840 <= held <= 2_160  # four standard deviations


def test_nothing_held_out_needs_no_id() -> None:
    assert HoldOut(0, KEY).side("") is Side.TRAIN
    with pytest.raises(BadRecord, match="the id is missing"):
        HoldOut(0.1, KEY).side("")


@pytest.mark.parametrize(("share", "key"), [(1.0, KEY), (-0.1, KEY), (0.2, b"short")])
def test_misuse(share: float, key: bytes) -> None:
    with pytest.raises(ValueError, match="hold-out"):
        HoldOut(share, key)


def test_the_datas_own_split() -> None:
    assert [given_side("train"), given_side("test"), given_side("")] == [Side.TRAIN, Side.TEST, None]
    with pytest.raises(BadRecord):
        given_side("Train")
