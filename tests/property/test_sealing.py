"""Sealing: what was sealed opens, whole, at its recipient, beside its core; nothing else does."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from secureproto.crypto.keys import FileSigner, PublicKey
from secureproto.crypto.sealing import Opener, Sealer, SignedManifest, sealed_length, sign_manifest
from secureproto.errors import Rejected
from secureproto.wire.reasons import Reason

SIGNER = FileSigner(ec.derive_private_key(3, ec.SECP256R1()))
RECIPIENTS = [ec.derive_private_key(scalar, ec.SECP256R1()) for scalar in (5, 6)]
PUBLIC = [PublicKey.of(key.public_key()) for key in RECIPIENTS]
PIECE, PREFIX = 16384 + 16, 56

SIZES = st.one_of(st.integers(0, 200), st.sampled_from([16383, 16384, 16385, 32768, 50_000]))
PLACES = st.integers(0, 10_000)  # taken modulo a length, for signatures differ in theirs from run to run
CORES = st.binary(max_size=100)


def seal(core: bytes, plaintext: bytes) -> tuple[Sealer, bytes]:
    sealer = Sealer(core, PUBLIC)
    return sealer, sealer.update(plaintext) + sealer.finalize()


def open_body(manifest: SignedManifest, body: bytes, recipient: int = 0) -> bytes:
    opener = Opener(manifest.core, manifest.wrapped, RECIPIENTS[recipient])
    return opener.update(body) + opener.finalize()


def reason(run: Callable[[], object]) -> Reason:
    with pytest.raises(Rejected) as caught:
        run()
    assert isinstance(caught.value.reason, Reason)
    return caught.value.reason


@given(CORES, SIZES, st.integers(1, 40_000))
def test_every_recipient_opens_what_was_sealed(core: bytes, size: int, step: int) -> None:
    plaintext = bytes(number % 251 for number in range(size))
    sealer = Sealer(core, PUBLIC)
    body = b"".join(sealer.update(plaintext[i : i + step]) for i in range(0, size, step)) + sealer.finalize()
    for recipient in (0, 1):
        manifest = SignedManifest.parse(sign_manifest(sealer, SIGNER, recipient=recipient).encode())
        manifest.verify(SIGNER.public)
        assert manifest.core == core
        assert manifest.ciphertext_length == len(body) == sealed_length(size)
        assert manifest.ciphertext_digest == sha256(body).digest()
        assert open_body(manifest, body, recipient) == plaintext


@given(CORES, PLACES, st.integers(1, 255))
def test_any_byte_of_a_manifest_changed_is_refused(core: bytes, place: int, change: int) -> None:
    sealer, _ = seal(core, b"plaintext")
    encoded = bytearray(sign_manifest(sealer, SIGNER).encode())
    encoded[place % len(encoded)] ^= change
    assert reason(lambda: SignedManifest.parse(bytes(encoded)).verify(SIGNER.public)) in {
        Reason.BAD_SIGNATURE,
        Reason.MALFORMED,
        Reason.TOO_LARGE,
    }


@given(CORES, PLACES, st.binary(min_size=1, max_size=20))
def test_a_manifest_of_another_length_is_refused(core: bytes, place: int, more: bytes) -> None:
    sealer, _ = seal(core, b"plaintext")
    encoded = sign_manifest(sealer, SIGNER).encode()
    shorter, longer = encoded[: place % len(encoded)], encoded + more
    assert reason(lambda: SignedManifest.parse(shorter)) in {Reason.MALFORMED, Reason.TOO_LARGE}
    assert reason(lambda: SignedManifest.parse(longer)) is Reason.MALFORMED


@given(st.binary(max_size=9000))
def test_parsing_any_bytes_gives_a_manifest_of_those_bytes_or_a_refusal(data: bytes) -> None:
    try:
        manifest = SignedManifest.parse(data)
    except Rejected:
        return
    assert manifest.encode() == data


@given(SIZES, st.data())
def test_any_byte_of_a_body_changed_is_refused(size: int, data: st.DataObject) -> None:
    sealer, body = seal(b"core", bytes(size))
    altered = bytearray(body)
    altered[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    manifest = sign_manifest(sealer, SIGNER)
    assert reason(lambda: open_body(manifest, bytes(altered))) is Reason.DECRYPT_FAILED


@given(SIZES, st.data())
def test_a_body_cut_or_extended_is_refused(size: int, data: st.DataObject) -> None:
    sealer, body = seal(b"core", bytes(size))
    manifest = sign_manifest(sealer, SIGNER)
    shorter = body[: data.draw(st.integers(0, len(body) - 1))]
    longer = body + data.draw(st.binary(min_size=1, max_size=40))
    assert reason(lambda: open_body(manifest, shorter)) is Reason.DECRYPT_FAILED
    assert reason(lambda: open_body(manifest, longer)) is Reason.DECRYPT_FAILED


@given(st.permutations(range(4)), st.sets(st.integers(0, 3)), st.integers(0, 4))
def test_chunks_in_any_other_order_or_number_are_refused(order: list[int], left_out: set[int], repeated: int) -> None:
    sealer, body = seal(b"core", bytes(range(256)) * 200)  # three whole chunks and the beginning of a fourth
    manifest = sign_manifest(sealer, SIGNER)
    pieces = [body[PREFIX + i * PIECE : PREFIX + (i + 1) * PIECE] for i in range(4)]
    chosen = [i for i in order if i not in left_out] + [repeated] * (repeated < 4)
    moved = body[:PREFIX] + b"".join(pieces[i] for i in chosen)
    if moved == body:
        assert len(open_body(manifest, moved)) == 256 * 200
    else:
        assert reason(lambda: open_body(manifest, moved)) is Reason.DECRYPT_FAILED


@given(CORES, CORES)
def test_key_and_body_open_beside_their_own_core_only(core: bytes, other: bytes) -> None:
    sealer, body = seal(core, b"plaintext")
    manifest = replace(sign_manifest(sealer, SIGNER), core=other)
    if core == other:
        assert open_body(manifest, body) == b"plaintext"
    else:
        assert reason(lambda: open_body(manifest, body)) is Reason.DECRYPT_FAILED


@given(st.data())
def test_any_byte_of_a_wrapped_key_changed_is_refused(data: st.DataObject) -> None:
    sealer, _ = seal(b"core", b"plaintext")
    wrapped = bytearray(sealer.wrapped[0])
    wrapped[data.draw(st.integers(0, len(wrapped) - 1))] ^= data.draw(st.integers(1, 255))
    assert reason(lambda: Opener(b"core", bytes(wrapped), RECIPIENTS[0])) is Reason.DECRYPT_FAILED


def test_a_body_does_not_open_for_another_recipient() -> None:
    sealer, body = seal(b"core", b"plaintext")
    first, second = (sign_manifest(sealer, SIGNER, recipient=i) for i in (0, 1))
    assert open_body(first, body, 0) == open_body(second, body, 1) == b"plaintext"
    assert reason(lambda: open_body(first, body, 1)) is Reason.DECRYPT_FAILED
    assert reason(lambda: open_body(second, body, 0)) is Reason.DECRYPT_FAILED


def test_a_body_does_not_open_with_the_key_of_another_sealing() -> None:
    one, _ = seal(b"core", b"plaintext")
    _, body = seal(b"core", b"plaintext")
    assert reason(lambda: open_body(sign_manifest(one, SIGNER), body)) is Reason.DECRYPT_FAILED
