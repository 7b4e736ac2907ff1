"""Vectors of crypto/SPEC.md, made with the second form of the format: one attack or property each.

A vector holds all bytes of its case in hex and what must come of it: "accepted" or the reason of the refusal.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support import second_format as form

SENDER, STRANGER = form.private_key(0x5E4DE2), form.private_key(0x57A46E2)
RECIPIENT, OTHER_RECIPIENT = form.private_key(0x2EC1), form.private_key(0x07E2)
EPHEMERAL = form.private_key(0xE9)
CONTENT_KEY, SALT = bytes(range(32)), bytes(range(100, 124))
PLAINTEXT = bytes(number * 7 % 256 for number in range(16_500))  # a whole chunk and the beginning of another
PIECE = 16384 + 16
Vector = dict[str, Any]


def core(**changed: Any) -> bytes:
    """The core of an upload, some of its members changed."""
    value = {
        "suite": "p256",
        "federation": "cardio",
        "epoch": 1,
        "study": "heart",
        "round": 3,
        "attempt": 1,
        "study_digest": "a" * 64,
        "schema_digest": "b" * 64,
        "sender": "cleveland",
        "sender_key": form.key_id(SENDER),
        "recipient_key": form.key_id(RECIPIENT),
        "upload_id": "c" * 32,
        "issued": 1_700_000_000,
        "expires": 1_700_000_600,
        "policy_digest": "d" * 64,
        "receipt": {
            "protection": "unprotected",
            "unit": "record",
            "adjacency": "add_remove",
            "epsilon": "inf",
            "delta": "0",
        },
        "ledger_head": hashlib.sha256(b"").hexdigest(),
        "plaintext_length": len(PLAINTEXT),
    }
    return form.canonical(value | changed)


CORE = core()
WRAPPED = form.wrap(CONTENT_KEY, CORE, RECIPIENT.public_key(), EPHEMERAL)
BODY = form.cobblestone(CONTENT_KEY, form.seal_context(CORE), SALT, PLAINTEXT)
MANIFEST = form.manifest(CORE, WRAPPED, BODY, SENDER)


def flip(data: bytes, index: int) -> bytes:
    """The data with one bit of one byte turned over."""
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


def sealed() -> Iterator[tuple[str, Vector]]:
    """Manifest and body as they arrive, the keys of both ends, what must come of it."""
    yield _sealed("upload_opens", "the plain case: every step is a second implementation's", "accepted")
    empty = form.cobblestone(CONTENT_KEY, form.seal_context(CORE), SALT, b"")
    yield _sealed("empty_body_opens", "one empty chunk", "accepted", body=empty, resign=True, plaintext=b"")
    whole = PLAINTEXT[:16384]
    exact = form.cobblestone(CONTENT_KEY, form.seal_context(CORE), SALT, whole)
    why = "a message of one whole chunk ends with an empty one"
    yield _sealed("one_whole_chunk_opens", why, "accepted", body=exact, resign=True, plaintext=whole)
    yield from _bodies()
    yield from _bindings()
    yield from _manifests()


def _bodies() -> Iterator[tuple[str, Vector]]:
    prefix, first, last = BODY[:56], BODY[56 : 56 + PIECE], BODY[56 + PIECE :]
    cases = {
        "body_with_one_bit_flipped": flip(BODY, 5_000),
        "body_with_its_salt_changed": flip(BODY, 3),
        "body_with_its_commitment_changed": flip(BODY, 30),
        "body_truncated_by_a_byte": BODY[:-1],
        "body_truncated_at_a_chunk": prefix + first,
        "body_without_its_first_chunk": prefix + last,
        "body_with_chunks_reordered": prefix + last + first,
        "body_with_a_chunk_repeated": prefix + first + first + last,
        "body_extended_by_a_byte": BODY + b"\x00",
        "body_of_nothing": b"",
    }
    for name, body in cases.items():
        why = "the sender's own manifest covers this body: the cipher alone must find it"
        yield _sealed(name, why, "decrypt_failed", body=body, resign=True)


def _bindings() -> Iterator[tuple[str, Vector]]:
    moved = form.manifest(core(round=4), WRAPPED, BODY, SENDER)
    why = "key and body of round 3 beside a validly signed core of round 4"
    yield _sealed("body_moved_to_another_round", why, "decrypt_failed", manifest=moved)
    why = "the key was wrapped for another recipient"
    yield _sealed("key_wrapped_for_another_recipient", why, "decrypt_failed", recipient=OTHER_RECIPIENT)
    other = form.cobblestone(CONTENT_KEY, form.seal_context(core(attempt=2)), SALT, PLAINTEXT)
    why = "a body of the same content key, sealed beside another core"
    yield _sealed("body_of_another_attempt", why, "decrypt_failed", body=other, resign=True)
    wrapped = flip(WRAPPED, 80)
    why = "a bit of the wrapped key, in a validly signed manifest"
    yield _sealed("wrapped_key_altered", why, "decrypt_failed", manifest=form.manifest(CORE, wrapped, BODY, SENDER))


def _manifests() -> Iterator[tuple[str, Vector]]:
    signed = form.manifest_signed_part(CORE, WRAPPED, BODY)
    other_label = form.prefixed(form.signature(SENDER, "secureproto/v1/upload", signed))
    long_core, huge_core = core(sender="x" * (8193 - len(core(sender="")))), core(sender="x" * 9000)
    cases = {
        "manifest_core_edited": ("bad_signature", MANIFEST.replace(b'"round":3', b'"round":4')),
        "manifest_digest_edited": ("bad_signature", flip(MANIFEST, len(signed) - 1)),
        "manifest_length_edited": ("bad_signature", flip(MANIFEST, len(signed) - 33)),
        "manifest_signed_by_a_stranger": ("bad_signature", form.manifest(CORE, WRAPPED, BODY, STRANGER)),
        "manifest_signature_of_another_label": ("bad_signature", signed + other_label),
        "manifest_without_signature": ("bad_signature", signed + form.prefixed(b"")),
        "manifest_cut_short": ("malformed", MANIFEST[:-1]),
        "manifest_with_a_byte_too_many": ("malformed", MANIFEST + b"\x00"),
        "manifest_of_nothing": ("malformed", b""),
        "manifest_with_a_short_wrapped_key": ("malformed", form.manifest(CORE, WRAPPED[:-1], BODY, SENDER)),
        "manifest_with_a_long_wrapped_key": ("malformed", form.manifest(CORE, WRAPPED + b"\0", BODY, SENDER)),
        "manifest_with_a_core_over_8_kib": ("too_large", form.manifest(long_core, WRAPPED, BODY, SENDER)),
        "manifest_of_9_kib": ("too_large", form.manifest(huge_core, WRAPPED, BODY, SENDER)),
    }
    for name, (expect, data) in cases.items():
        yield _sealed(name, "the manifest as bytes, before any body", expect, manifest=data)


def _sealed(
    name: str, why: str, expect: str, *, body: bytes = BODY, resign: bool = False, **other: Any
) -> tuple[str, Vector]:
    manifest = form.manifest(CORE, WRAPPED, body, SENDER) if resign else other.get("manifest", MANIFEST)
    return f"crypto/sealed/{name}.json", {
        "name": name,
        "why": why,
        "expect": expect,
        "sender_spki": form.spki(SENDER).hex(),
        "recipient_scalar": hex(other.get("recipient", RECIPIENT).private_numbers().private_value),
        "manifest": manifest.hex(),
        "manifest_digest": form.labelled_digest(
            "secureproto/v1/manifest", form.manifest_signed_part(CORE, WRAPPED, body)
        )
        if expect == "accepted"
        else "",
        "body": body.hex() if expect in {"accepted", "decrypt_failed"} else "",
        "plaintext_sha256": hashlib.sha256(other.get("plaintext", PLAINTEXT)).hexdigest(),
    }


def public_keys() -> Iterator[tuple[str, Vector]]:
    """Public keys that must be refused, and one that must not."""
    good = form.spki(SENDER)
    compressed = SENDER.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    p384 = ec.derive_private_key(77, ec.SECP384R1()).public_key()
    algorithm = bytes.fromhex("301306072a8648ce3d020106082a8648ce3d030107")
    short = b"\x30" + bytes([len(algorithm) + 36]) + algorithm + b"\x03\x22\x00" + compressed
    # an RSA key with a modulus of 62 bytes has the length of a P-256 key
    inner = b"\x30\x45\x02\x3e\x7f" + b"\xff" * 61 + b"\x02\x03\x01\x00\x01"
    rsa = b"\x30\x59" + bytes.fromhex("300d06092a864886f70d0101010500") + b"\x03\x48\x00" + inner
    cases = {
        "public_key": ("accepted", good),
        "public_key_off_the_curve": ("malformed", flip(good, 90)),
        "public_key_with_a_compressed_point": ("malformed", short),
        "public_key_with_a_hybrid_point": ("malformed", good[:26] + b"\x06" + good[27:]),
        "public_key_of_another_algorithm": ("malformed", rsa),
        "public_key_of_p384": ("malformed", p384.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
        "public_key_with_a_byte_too_many": ("malformed", good + b"\x00"),
        "public_key_at_infinity": ("malformed", good[:26] + bytes(65)),
        "public_key_of_nothing": ("malformed", b""),
    }
    for name, (expect, spki) in cases.items():
        why = "one key has one encoding and so one id; anything else is no key"
        key_id = hashlib.sha256(spki).hexdigest()
        vector = {"name": name, "why": why, "expect": expect, "spki": spki.hex(), "key_id": key_id}
        yield f"crypto/keys/{name}.json", vector


def envelopes() -> Iterator[tuple[str, Vector]]:
    """Envelopes of a `Refusal`, the sender's key known, what must come of them."""
    payload = form.canonical(
        {
            "federation": "cardio",
            "epoch": 1,
            "study": "heart",
            "round": 3,
            "site": "cleveland",
            "reasons": ["policy"],
            "issued": 1_700_000_000,
        }
    )
    label = "secureproto/v1/refusal"
    good = form.envelope(SENDER, label, payload)
    spaced = payload.replace(b",", b", ")
    edited = form.text64(payload.replace(b'"round":3', b'"round":4')).encode()
    extra = form.envelope(SENDER, label, payload[:-1] + b',"z":1}')
    cases = {
        "envelope": ("accepted", good),
        "envelope_of_an_unknown_key": ("unknown_key", form.envelope(STRANGER, label, payload)),
        "envelope_payload_edited": ("bad_signature", good.replace(form.text64(payload).encode(), edited)),
        "envelope_signed_as_another_kind": ("bad_signature", form.envelope(SENDER, "secureproto/v1/poll", payload)),
        "envelope_payload_not_canonical": ("malformed", form.envelope(SENDER, label, spaced)),
        "envelope_payload_with_an_unknown_member": ("malformed", extra),
        "envelope_with_an_unknown_member": ("malformed", good[:-1] + b',"z":1}'),
        "envelope_with_white_space": ("malformed", good.replace(b",", b", ", 1)),
        "envelope_with_base64_padding": ("malformed", good.replace(b'","signature', b'=","signature')),
    }
    for name, (expect, data) in cases.items():
        why = "a Refusal of the sender, whose key alone is known"
        vector = {"name": name, "why": why, "expect": expect, "sender_spki": form.spki(SENDER).hex()}
        yield f"crypto/envelopes/{name}.json", vector | {"envelope": data.decode(), "payload": payload.decode()}
