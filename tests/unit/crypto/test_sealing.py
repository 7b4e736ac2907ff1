"""Sealing beside its properties: misuse, limits, and memory that does not grow with the body."""

import tracemalloc

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from secureproto.crypto.keys import FileSigner, PublicKey
from secureproto.crypto.sealing import Opener, Sealer, SignedManifest, rewrap, sealed_length, sign_manifest
from secureproto.errors import Rejected
from secureproto.wire.limits import LIMITS, MIB
from secureproto.wire.reasons import Reason
from support import second_format as form

PRIVATE = form.private_key(5)
RECIPIENT = PublicKey.of(PRIVATE.public_key())
SIGNER = FileSigner(form.private_key(3))


def test_an_unfinished_sealing_has_no_manifest() -> None:
    sealer = Sealer(b"core", [RECIPIENT])
    sealer.update(b"x")
    for read in (lambda: sealer.ciphertext_length, lambda: sealer.ciphertext_digest):
        with pytest.raises(ValueError, match="finalize"):
            read()
    with pytest.raises(ValueError, match="finalize"):
        sign_manifest(sealer, SIGNER)


def test_a_core_over_the_limit_is_not_signed() -> None:
    sealer = Sealer(b"x" * (LIMITS.manifest_core + 1), [RECIPIENT])
    sealer.finalize()
    with pytest.raises(ValueError, match="over 8192"):
        sign_manifest(sealer, SIGNER)


def test_the_largest_core_fits_the_limit_of_a_manifest() -> None:
    sealer = Sealer(b"x" * LIMITS.manifest_core, [RECIPIENT])
    sealer.finalize()
    SignedManifest.parse(sign_manifest(sealer, SIGNER).encode()).verify(SIGNER.public)


def test_a_content_key_of_another_length_is_refused() -> None:
    wrapped = form.wrap(bytes(16), b"core", PRIVATE.public_key(), form.private_key(77))
    with pytest.raises(Rejected) as caught:
        Opener(b"core", wrapped, PRIVATE)
    assert caught.value.reason is Reason.DECRYPT_FAILED


def test_a_body_can_be_given_to_one_more_recipient() -> None:
    sealer, late = Sealer(b"core", [RECIPIENT]), form.private_key(6)
    body = sealer.update(b"plaintext") + sealer.finalize()
    wrapped = rewrap(b"core", sealer.wrapped[0], PRIVATE, PublicKey.of(late.public_key()))
    opener = Opener(b"core", wrapped, late)
    assert opener.update(body) + opener.finalize() == b"plaintext"


@pytest.mark.parametrize(("core", "scalar"), [(b"other", 5), (b"core", 6)])
def test_nobody_else_can_pass_a_body_on(core: bytes, scalar: int) -> None:
    wrapped = Sealer(b"core", [RECIPIENT]).wrapped[0]
    with pytest.raises(Rejected) as caught:
        rewrap(core, wrapped, form.private_key(scalar), RECIPIENT)
    assert caught.value.reason is Reason.DECRYPT_FAILED


def test_every_sealing_has_its_own_key() -> None:
    one, other = (Sealer(b"core", [RECIPIENT]) for _ in range(2))
    assert one.wrapped != other.wrapped
    assert one.update(bytes(20_000)) != other.update(bytes(20_000))


def test_the_signature_is_no_part_of_a_manifests_name() -> None:
    sealer = Sealer(b"core", [RECIPIENT])
    sealer.finalize()
    one, other = (sign_manifest(sealer, SIGNER) for _ in range(2))
    assert one.signature != other.signature
    assert one.digest == other.digest


def test_a_failure_stays_a_failure() -> None:
    sealer = Sealer(b"core", [RECIPIENT])
    body = sealer.update(bytes(50_000)) + sealer.finalize()
    opener = Opener(b"core", sealer.wrapped[0], PRIVATE)
    with pytest.raises(Rejected):
        opener.update(body[:100] + bytes([body[100] ^ 1]) + body[101:40_000])
    with pytest.raises(Rejected):
        opener.update(body[40_000:])
    with pytest.raises(Rejected):
        opener.finalize()


def test_memory_is_that_of_a_chunk() -> None:
    chunk, sealer = bytes(MIB), Sealer(b"core", [RECIPIENT])
    opener = Opener(b"core", sealer.wrapped[0], PRIVATE)
    tracemalloc.start()
    try:
        for _ in range(32):
            opener.update(sealer.update(chunk))
        opener.update(sealer.finalize())
        opener.finalize()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sealer.ciphertext_length == sealed_length(32 * MIB)
    assert peak < 8 * MIB


def test_sealing_needs_a_key_of_the_suites_curve() -> None:
    other = ec.generate_private_key(ec.SECP384R1())
    with pytest.raises(Rejected) as caught:
        PublicKey.of(other.public_key())
    assert caught.value.reason is Reason.MALFORMED
