"""The wire format a second time, written from the two SPEC.md alone: no code of the product is used here.

Everything is spelled out with struct, json, hmac and hashlib; of `cryptography` only AES-GCM, the curve and the one
signature. All that is random is an argument, so the same arguments give the same bytes.
"""

import base64
import hashlib
import hmac
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CODES = {"F32": "f", "F64": "d", "I64": "q"}
CHUNK = 16384


def private_key(scalar: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(scalar, ec.SECP256R1())


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def key_id(key: ec.EllipticCurvePrivateKey) -> str:
    return hashlib.sha256(spki(key)).hexdigest()


def point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def text64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().replace("=", "")


def canonical(value: Any) -> bytes:
    """Canonical bytes, member by member."""
    if isinstance(value, dict):
        members = (canonical(key) + b":" + canonical(value[key]) for key in sorted(value))
        return b"{" + b",".join(members) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(canonical(item) for item in value) + b"]"
    return json.dumps(value, ensure_ascii=False).encode()


def prefixed(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def labelled(label: str, data: bytes) -> bytes:
    return prefixed(label.encode(), data)


def labelled_digest(label: str, data: bytes) -> str:
    return hashlib.sha256(labelled(label, data)).hexdigest()


def signature(key: ec.EllipticCurvePrivateKey, label: str, data: bytes) -> bytes:
    return key.sign(labelled(label, data), ec.ECDSA(hashes.SHA256(), deterministic_signing=True))


def envelope(key: ec.EllipticCurvePrivateKey, label: str, payload: bytes) -> bytes:
    signed = text64(signature(key, label, payload))
    return canonical({"key": key_id(key), "payload": text64(payload), "signature": signed})


def shared_envelope(keys: Sequence[ec.EllipticCurvePrivateKey], label: str, payload: bytes) -> bytes:
    entries = [{"key": key_id(key), "signature": text64(signature(key, label, payload))} for key in keys]
    entries.sort(key=lambda entry: entry["key"])
    return canonical({"payload": text64(payload), "signatures": entries})


def tensor_header(tensors: Iterable[tuple[str, str, Sequence[int]]]) -> bytes:
    parts, end = [], 0
    for name, dtype, shape in tensors:
        count = 1
        for size in shape:
            count *= size
        start, end = end, end + count * struct.calcsize("<" + CODES[dtype])
        sizes = ",".join(str(size) for size in shape)
        parts.append(f'"{name}":{{"dtype":"{dtype}","shape":[{sizes}],"data_offsets":[{start},{end}]}}')
    text = "{" + ",".join(parts) + "}"
    while len(text) % 8:
        text += " "
    return struct.pack("<Q", len(text)) + text.encode()


def tensor_body(tensors: Sequence[tuple[str, str, Sequence[int]]], values: Mapping[str, Sequence[float]]) -> bytes:
    body = tensor_header(tensors)
    for name, dtype, _ in tensors:
        body += struct.pack(f"<{len(values[name])}{CODES[dtype]}", *values[name])
    return body


def seal_context(core: bytes) -> bytes:
    return hashlib.sha256(labelled("secureproto/v1/seal", core)).digest()


def wrap(
    content_key: bytes, core: bytes, recipient: ec.EllipticCurvePublicKey, ephemeral: ec.EllipticCurvePrivateKey
) -> bytes:
    return hpke(content_key, recipient, ephemeral, info=b"secureproto/v1/seal" + seal_context(core))


def hpke(
    plaintext: bytes,
    recipient: ec.EllipticCurvePublicKey,
    ephemeral: ec.EllipticCurvePrivateKey,
    *,
    info: bytes,
    aad: bytes = b"",
) -> bytes:
    """RFC 9180 in base mode: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, one message."""
    encapsulated = point(ephemeral.public_key())
    kem = b"KEM" + struct.pack(">H", 0x0010)
    shared = _labelled_expand(
        kem,
        _labelled_extract(kem, b"", b"eae_prk", ephemeral.exchange(ec.ECDH(), recipient)),
        b"shared_secret",
        encapsulated + point(recipient),
        32,
    )
    suite = b"HPKE" + struct.pack(">HHH", 0x0010, 0x0001, 0x0002)
    context = b"\x00" + _labelled_extract(suite, b"", b"psk_id_hash", b"")
    context += _labelled_extract(suite, b"", b"info_hash", info)
    secret = _labelled_extract(suite, shared, b"secret", b"")
    key = _labelled_expand(suite, secret, b"key", context, 32)
    nonce = _labelled_expand(suite, secret, b"base_nonce", context, 12)
    return encapsulated + AESGCM(key).encrypt(nonce, plaintext, aad)


def cobblestone(content_key: bytes, context: bytes, salt: bytes, plaintext: bytes) -> bytes:
    """Cobblestone-256: c2sp.org/chunked-encryption with HKDF-Expand-SHA-512 and AES-256-GCM."""
    info = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\x00" + salt + context
    stream = _expand(content_key, info, 32 + 12 + 32, hashlib.sha512)
    key, nonce, commitment = stream[:32], int.from_bytes(stream[32:44], "big"), stream[44:]
    out = salt + commitment
    for number in range(len(plaintext) // CHUNK + 1):
        part = plaintext[number * CHUNK : (number + 1) * CHUNK]
        out += AESGCM(key).encrypt((nonce ^ number).to_bytes(12, "big"), part, None)
    return out


def manifest_signed_part(core: bytes, wrapped: bytes, ciphertext: bytes) -> bytes:
    return prefixed(core, wrapped) + struct.pack(">Q", len(ciphertext)) + hashlib.sha256(ciphertext).digest()


def manifest(core: bytes, wrapped: bytes, ciphertext: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    signed_part = manifest_signed_part(core, wrapped, ciphertext)
    return signed_part + prefixed(signature(key, "secureproto/v1/manifest", signed_part))


def _expand(key: bytes, info: bytes, length: int, algorithm: Any) -> bytes:
    out, block, counter = b"", b"", 0
    while len(out) < length:
        counter += 1
        block = hmac.new(key, block + info + bytes([counter]), algorithm).digest()
        out += block
    return out[:length]


def _labelled_extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac.new(salt or bytes(32), b"HPKE-v1" + suite + label + secret, hashlib.sha256).digest()


def _labelled_expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return _expand(key, struct.pack(">H", length) + b"HPKE-v1" + suite + label + info, length, hashlib.sha256)
