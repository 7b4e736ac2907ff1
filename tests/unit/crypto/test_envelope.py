"""Signed messages with one signature and with several."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from secureproto.crypto import envelope
from secureproto.crypto.keys import FileSigner, PublicKey
from secureproto.errors import IntegrityBroken, Rejected
from secureproto.wire import base64url
from secureproto.wire.messages import EnrolmentRequest, PublicKeys, Refusal, StudyKnown
from secureproto.wire.reasons import Reason
from support import second_format as form

SCALARS = (11, 12, 13)
SIGNERS = [FileSigner(form.private_key(scalar)) for scalar in SCALARS]
KEYS = {signer.public.key_id: signer.public for signer in SIGNERS}
MESSAGE = Refusal(
    federation="cardio",
    epoch=1,
    study="heart",
    round=3,
    site="cleveland",
    reasons=("policy",),
    issued=1_700_000_000,
)
PAYLOAD = MESSAGE.canonical()


def enrolment(key: PublicKey) -> EnrolmentRequest:
    keys = PublicKeys(tls=key.b64, signing=key.b64, hpke=key.b64)
    digest, hex128 = "0" * 64, "0" * 32
    return EnrolmentRequest(
        federation="cardio", site="a", token=hex128, secret="", root_digest=digest, keys=keys, csr="", issued=0
    )


def brought(message: EnrolmentRequest) -> PublicKey:
    return PublicKey.from_b64(message.keys.signing)


def refused(reason: Reason, data: bytes, threshold: int, keys: dict[str, PublicKey] = KEYS) -> None:
    with pytest.raises(Rejected) as caught:
        envelope.verify_threshold(data, Refusal, keys, threshold)
    assert caught.value.reason is reason


def test_a_message_comes_back_and_its_sender_can_be_found() -> None:
    data = envelope.sign(MESSAGE, SIGNERS[0])
    assert envelope.peek_key(data) == SIGNERS[0].public.key_id
    assert envelope.verify(data, Refusal, KEYS) == MESSAGE


def test_the_second_forms_envelopes_are_ours_but_for_the_signature() -> None:
    ours = json.loads(envelope.sign(MESSAGE, SIGNERS[0]))
    theirs = json.loads(form.envelope(form.private_key(SCALARS[0]), Refusal.LABEL, PAYLOAD))
    assert {**ours, "signature": ""} == {**theirs, "signature": ""}


def test_part_of_a_message_is_never_signed_alone() -> None:
    with pytest.raises(ValueError, match="no label"):
        envelope.sign(StudyKnown(study="s", answered_round=0, version=0, outcome_round=0), SIGNERS[0])


def test_an_enrolment_is_signed_by_the_key_that_it_brings() -> None:
    mine = enrolment(SIGNERS[0].public)
    assert envelope.verify_self_signed(envelope.sign(mine, SIGNERS[0]), EnrolmentRequest, brought) == mine
    with pytest.raises(Rejected) as caught:
        envelope.verify_self_signed(envelope.sign(mine, SIGNERS[1]), EnrolmentRequest, brought)
    assert caught.value.reason is Reason.UNKNOWN_KEY


def test_an_enrolment_claiming_the_key_of_another_is_refused() -> None:
    claimed = json.loads(envelope.sign(enrolment(SIGNERS[0].public), SIGNERS[1]))
    forged = form.canonical(claimed | {"key": SIGNERS[0].public.key_id})
    with pytest.raises(Rejected) as caught:
        envelope.verify_self_signed(forged, EnrolmentRequest, brought)
    assert caught.value.reason is Reason.BAD_SIGNATURE


def test_several_sign_in_any_order() -> None:
    one, two, three = SIGNERS
    data = envelope.sign_threshold(MESSAGE, two)
    for signer in (three, one):
        data = envelope.countersign(data, Refusal, signer)
    entries = json.loads(data)["signatures"]
    assert [entry["key"] for entry in entries] == sorted(KEYS)
    for threshold in (1, 2, 3):
        assert envelope.verify_threshold(data, Refusal, KEYS, threshold) == MESSAGE


def test_the_second_forms_shared_envelope_verifies() -> None:
    data = form.shared_envelope([form.private_key(scalar) for scalar in SCALARS], Refusal.LABEL, PAYLOAD)
    assert envelope.verify_threshold(data, Refusal, KEYS, 3) == MESSAGE


def test_signing_twice_does_not_count_twice() -> None:
    data = envelope.sign_threshold(MESSAGE, SIGNERS[0])
    assert envelope.countersign(data, Refusal, SIGNERS[0]) == data
    refused(Reason.BAD_SIGNATURE, data, 2)
    entry = json.loads(data)["signatures"][0]
    twice = form.canonical({"payload": base64url.encode(PAYLOAD), "signatures": [entry, entry]})
    refused(Reason.MALFORMED, twice, 2)


def test_signatures_out_of_order_are_refused() -> None:
    data = envelope.countersign(envelope.sign_threshold(MESSAGE, SIGNERS[0]), Refusal, SIGNERS[1])
    value = json.loads(data)
    refused(Reason.MALFORMED, form.canonical(value | {"signatures": value["signatures"][::-1]}), 2)


def test_unknown_signers_are_passed_over_and_do_not_count() -> None:
    data = envelope.countersign(envelope.sign_threshold(MESSAGE, SIGNERS[0]), Refusal, SIGNERS[1])
    only = {SIGNERS[0].public.key_id: SIGNERS[0].public}
    assert envelope.verify_threshold(data, Refusal, only, 1) == MESSAGE
    refused(Reason.BAD_SIGNATURE, data, 2, only)
    refused(Reason.BAD_SIGNATURE, data, 1, {})


def test_one_bad_signature_of_a_known_key_spoils_the_document() -> None:
    good = json.loads(envelope.sign_threshold(MESSAGE, SIGNERS[0]))["signatures"][0]
    bad = {"key": SIGNERS[1].public.key_id, "signature": good["signature"]}
    entries = sorted([good, bad], key=lambda entry: str(entry["key"]))
    refused(Reason.BAD_SIGNATURE, form.canonical({"payload": base64url.encode(PAYLOAD), "signatures": entries}), 1)


def test_a_threshold_of_nothing_is_misuse() -> None:
    with pytest.raises(ValueError, match="below one"):
        envelope.verify_threshold(envelope.sign_threshold(MESSAGE, SIGNERS[0]), Refusal, KEYS, 0)


def test_a_first_document_is_taken_by_its_digest_only() -> None:
    data = envelope.sign_threshold(MESSAGE, SIGNERS[0])
    assert envelope.open_pinned(data, Refusal, MESSAGE.digest()) == MESSAGE
    with pytest.raises(IntegrityBroken, match="not the one"):
        envelope.open_pinned(data, Refusal, "0" * 64)


def test_a_signers_seam_takes_any_object_that_signs() -> None:
    class Remote:
        """As a key service would be: it is asked, and has no key in this process."""

        def __init__(self) -> None:
            self._key = FileSigner(ec.derive_private_key(99, ec.SECP256R1()))

        @property
        def public(self) -> PublicKey:
            return self._key.public

        def sign(self, label: str, data: bytes) -> bytes:
            return self._key.sign(label, data)

    remote = Remote()
    assert envelope.verify(envelope.sign(MESSAGE, remote), Refusal, {remote.public.key_id: remote.public}) == MESSAGE
