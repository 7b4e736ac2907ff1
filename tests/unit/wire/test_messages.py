"""Messages: frozen, strict, one encoding; a fault names the field, never its value."""

import pytest
from pydantic import ValidationError

from secureproto.errors import Rejected
from secureproto.wire import canonical, messages
from secureproto.wire.messages import InviteToken, Message, Refusal
from secureproto.wire.reasons import STATUS, Reason, problem_type, status

REFUSAL = Refusal(
    federation="heart", epoch=1, study="heart", round=3, site="cleveland", reasons=("data_unusable",), issued=100
)


def test_a_message_comes_back_from_its_bytes() -> None:
    assert Refusal.parse(REFUSAL.canonical()) == REFUSAL


def test_every_label_is_unique() -> None:
    kinds = [kind for kind in vars(messages).values() if isinstance(kind, type) and issubclass(kind, Message)]
    labels = [kind.LABEL for kind in kinds if kind.LABEL]
    assert len(labels) == len(set(labels)) > 10


def test_the_label_separates_digests() -> None:
    class Other(Refusal):
        LABEL = "secureproto/v1/other"

    assert Other(**dict(REFUSAL)).digest() != REFUSAL.digest()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("round", -1),
        ("round", "3"),
        ("round", True),
        ("site", "Cleveland"),
        ("site", "a" * 64),
        ("site", "-a"),
        ("site", "a\n"),
        ("reasons", ["because"]),
        ("extra", 1),
    ],
)
def test_a_field_that_does_not_fit_is_named_without_its_value(field: str, value: object) -> None:
    record = REFUSAL.model_dump(mode="json") | {field: value}
    with pytest.raises(Rejected) as caught:
        Refusal.parse(canonical.encode(record))
    assert caught.value.reason is Reason.MALFORMED
    assert field in caught.value.message
    assert str(value) not in caught.value.message.replace(field, "")


@pytest.mark.parametrize("data", [b"[]", b"null", b"{}", b'"x"'])
def test_what_is_no_message_is_malformed(data: bytes) -> None:
    with pytest.raises(Rejected):
        Refusal.parse(data)


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        REFUSAL.round = 4  # type: ignore[misc]


def test_a_line_holds_no_control_characters() -> None:
    with pytest.raises(ValidationError):
        InviteToken.model_validate({"server": "https://a\nHost: b"})


def test_every_reason_has_a_status_and_a_uri() -> None:
    assert all(400 <= status(reason) < 600 for reason in Reason)
    assert set(STATUS) <= set(Reason)
    assert problem_type(Reason.REPLAYED) == "urn:secureproto:problem:replayed"
