"""The log's formats a second time, from SPEC.md alone: json, hashlib and raw ECDSA, nothing of secureproto.

Signatures are deterministic (RFC 6979), so what this writes can be compared byte for byte with what is committed.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.merkle_oracle import tree_hash

Fields = dict[str, object]


class Key:
    """A test key of a known number."""

    def __init__(self, number: int) -> None:
        self.private = ec.derive_private_key(number, ec.SECP256R1())
        self.spki = self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def line(self, name: str, body: str) -> str:
        """A signature line of a note."""
        kind = b"\xffsecureproto/v1/ecdsa-p256-sha256"
        key_id = sha256(name.encode() + b"\n" + kind + self.spki).digest()[:4]
        label, data = b"secureproto/v1/checkpoint", body.encode()
        image = len(label).to_bytes(4, "big") + label + len(data).to_bytes(4, "big") + data
        signature = self.private.sign(image, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
        return f"— {name} {b64encode(key_id + signature).decode()}\n"


def entry(sequence: int, **changes: object) -> Fields:
    """A valid entry: a site's upload, with what a test wants different."""
    fields: Fields = {
        "action": "upload_accepted",
        "actor": f"site-{sequence}",
        "after": "",
        "before": "",
        "clock": "system",
        "details": {"protection": "unprotected"},
        "meaning": "",
        "object": "",
        "object_digest": f"{sequence:064x}",
        "policy_digest": "d" * 64,
        "reason": "",
        "result": "done",
        "role": "site",
        "round": 3,
        "sequence": sequence,
        "study": "heart",
        "time": 1_790_000_000 + sequence,
    }
    return fields | changes


def encode(fields: Fields) -> bytes:
    """Canonical bytes."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def leaf_hex(data: bytes) -> str:
    """Leaf hash."""
    return sha256(b"\x00" + data).hexdigest()


def entry_line(data: bytes, leaf: str | None = None) -> str:
    """A line of the export."""
    return '{"entry":' + data.decode() + ',"leaf":"' + (leaf or leaf_hex(data)) + '"}\n'


def note(key: Key, origin: str, data: Sequence[bytes]) -> str:
    """Signed checkpoint over entries."""
    return signed(key, origin, f"{origin}\n{len(data)}\n{b64encode(tree_hash(data)).decode()}\n")


def signed(key: Key, name: str, body: str) -> str:
    """Any body as a signed note."""
    return f"{body}\n{key.line(name, body)}"


def note_line(text: str) -> str:
    """A checkpoint's line of the export."""
    return json.dumps({"checkpoint": text}, separators=(",", ":"), ensure_ascii=False) + "\n"
