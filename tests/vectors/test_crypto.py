"""The committed vectors of crypto/SPEC.md against the product, and the public ones against its building blocks."""

import json
from collections.abc import Callable
from hashlib import sha256

import cryptography_vectors
import pytest
from cryptography.cobblestone import Cobblestone256Encryptor
from cryptography.hazmat.bindings._rust import openssl as rust_openssl
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from secureproto.crypto import envelope
from secureproto.crypto.keys import PublicKey
from secureproto.crypto.sealing import Opener, SignedManifest, sealed_length
from secureproto.errors import Rejected
from secureproto.wire.messages import Refusal
from support import second_format as form
from support.vectors import Vector, load


def _name(vector: Vector) -> str:
    return str(vector["name"])


def _outcome(run: Callable[[], None]) -> str:
    try:
        run()
    except Rejected as error:
        return str(error.reason)
    return "accepted"


@pytest.mark.parametrize("vector", load("crypto/sealed"), ids=_name)
@pytest.mark.parametrize("step", [1000, 1_000_000])
def test_sealed(vector: Vector, step: int) -> None:
    def receive() -> None:
        manifest = SignedManifest.parse(bytes.fromhex(vector["manifest"]))
        manifest.verify(PublicKey(bytes.fromhex(vector["sender_spki"])))
        recipient = ec.derive_private_key(int(vector["recipient_scalar"], 16), ec.SECP256R1())
        opener, body = Opener(manifest.core, manifest.wrapped, recipient), bytes.fromhex(vector["body"])
        plaintext = b"".join(opener.update(body[i : i + step]) for i in range(0, len(body), step))
        plaintext += opener.finalize()
        assert sha256(plaintext).hexdigest() == vector["plaintext_sha256"]
        assert manifest.digest == vector["manifest_digest"]
        assert manifest.encode().hex() == vector["manifest"]
        assert manifest.ciphertext_length == len(body) == sealed_length(len(plaintext))
        assert manifest.ciphertext_digest == sha256(body).digest()

    assert _outcome(receive) == vector["expect"]


@pytest.mark.parametrize("vector", load("crypto/keys"), ids=_name)
def test_public_keys(vector: Vector) -> None:
    def take() -> None:
        assert PublicKey(bytes.fromhex(vector["spki"])).key_id == vector["key_id"]

    assert _outcome(take) == vector["expect"]


@pytest.mark.parametrize("vector", load("crypto/envelopes"), ids=_name)
def test_envelopes(vector: Vector) -> None:
    key = PublicKey(bytes.fromhex(vector["sender_spki"]))

    def receive() -> None:
        message = envelope.verify(vector["envelope"].encode(), Refusal, {key.key_id: key})
        assert message.canonical().decode() == vector["payload"]

    assert _outcome(receive) == vector["expect"]


def test_hpke_and_its_second_form_agree_with_rfc_9180() -> None:
    with cryptography_vectors.open_vector_file("HPKE/test-vectors.json", "r") as file:
        published = json.load(file)
    ids = {"mode": 0, "kem_id": 0x10, "kdf_id": 1, "aead_id": 2}
    (vector,) = [entry for entry in published if all(entry[key] == value for key, value in ids.items())]
    first = vector["encryptions"][0]  # what the one-shot form makes: sequence number 0
    info, aad, plaintext = (bytes.fromhex(text) for text in (vector["info"], first["aad"], first["pt"]))
    sealed = bytes.fromhex(vector["enc"] + first["ct"])
    recipient, ephemeral = (form.private_key(int(vector[name], 16)) for name in ("skRm", "skEm"))
    assert form.hpke(plaintext, recipient.public_key(), ephemeral, info=info, aad=aad) == sealed
    suite = Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
    # the published vectors have additional data, for which the library has an entry for tests only
    assert rust_openssl.hpke._decrypt_with_aad(suite, sealed, recipient, info, aad) == plaintext


@pytest.mark.parametrize("size", [0, 1, 16383, 16384, 16385, 50_000])
def test_cobblestone_agrees_with_its_second_form(size: int) -> None:
    key, plaintext = bytes(range(32)), bytes(size)
    encryptor = Cobblestone256Encryptor(key, b"context")
    sealed = encryptor.update(plaintext) + encryptor.finalize()
    assert sealed == form.cobblestone(key, b"context", sealed[:24], plaintext)
    assert len(sealed) == sealed_length(size)
