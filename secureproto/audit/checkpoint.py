"""Checkpoints: what the log commits to, in the form of C2SP tlog-checkpoint, signed as a C2SP signed-note.

    secureproto/v1/audit/heart
    20852163
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

    — secureproto/v1/audit/heart Az3grlgtzPICa5OS8n…

Invariants: one checkpoint has one text; a text is believed only with a signature of a key that the verifier knows
for this log; lines of other keys (witnesses) are kept as they are and prove nothing here; a known key's line that
does not verify spoils the whole.
Source: c2sp.org/tlog-checkpoint, c2sp.org/signed-note; the signature type is our own (SPEC.md, Signature lines).
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from secureproto.audit.merkle import HASH_BYTES
from secureproto.crypto.keys import PublicKey, Signer
from secureproto.errors import IntegrityBroken

LABEL = "secureproto/v1/checkpoint"
SIGNATURE_TYPE = b"\xffsecureproto/v1/ecdsa-p256-sha256"  # 0xff: a type of one's own, with a longer name behind it
KEY_ID_BYTES = 4
MAX_NOTE_BYTES = 64 * 1024  # a log's line and 300 witnesses' of 200 bytes each
MAX_SIZE_DIGITS = 13  # 2^40 entries, as many as a sequence number can name

_NUMBER = re.compile(r"(0|[1-9][0-9]*)\Z")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


def origin_of(federation: str) -> str:
    """The log's name: what its checkpoints begin with."""
    return f"secureproto/v1/audit/{federation}"


@dataclass(frozen=True)
class Checkpoint:
    """The tree of `size` entries of the log `origin` has this root."""

    origin: str
    size: int
    root: bytes

    def body(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"


@dataclass(frozen=True)
class NoteSignature:
    """One signature line, not verified."""

    name: str
    key_id: bytes
    signature: bytes


def note_key_id(name: str, key: PublicKey) -> bytes:
    """The four bytes by which a note names a key: a hint, no identity."""
    return sha256(name.encode() + b"\n" + SIGNATURE_TYPE + key.spki).digest()[:KEY_ID_BYTES]


def sign(checkpoint: Checkpoint, signer: Signer) -> str:
    """The signed note of a checkpoint. Never sign one that does not extend every one signed before."""
    body = checkpoint.body()
    signature = signer.sign(LABEL, body.encode())
    line = b64encode(note_key_id(checkpoint.origin, signer.public) + signature).decode()
    return f"{body}\n— {checkpoint.origin} {line}\n"


def verify(text: str, origin: str, *, keys: Mapping[str, PublicKey]) -> Checkpoint:
    """The checkpoint in a signed note of the log `origin`; `keys` are the log's, by key id.

    Raises:
        IntegrityBroken: malformed, of another log, or not signed by one of `keys`.
    """
    body, signatures = parse_note(text)
    checkpoint = _parse_body(body)
    if checkpoint.origin != origin:
        raise IntegrityBroken(f"checkpoint: it is of the log {checkpoint.origin[:80]!r}, not of {origin!r}")
    known = {note_key_id(origin, key): key for key in keys.values()}
    lines = [line for line in signatures if line.name == origin and line.key_id in known]
    for line in lines:
        known[line.key_id].verify(LABEL, body.encode(), line.signature)
    if not lines:
        raise IntegrityBroken("checkpoint: not signed by a key that is known for this log")
    return checkpoint


def parse_note(text: str) -> tuple[str, tuple[NoteSignature, ...]]:
    """Body and signature lines of a note: nothing is verified.

    Raises:
        IntegrityBroken: it is not in the form of C2SP signed-note.
    """
    if len(text.encode()) > MAX_NOTE_BYTES:
        raise IntegrityBroken(f"checkpoint: over {MAX_NOTE_BYTES} bytes")
    head, separator, tail = text.rpartition("\n\n")
    if _CONTROL.search(text) or not separator or not head or not tail.endswith("\n"):
        raise IntegrityBroken("checkpoint: not a text, an empty line, and signature lines")
    return head + "\n", tuple(_parse_line(line) for line in tail[:-1].split("\n"))


def _parse_line(line: str) -> NoteSignature:
    dash, _, rest = line.partition(" ")
    name, _, encoded = rest.partition(" ")
    if dash != "—" or not name or "+" in name or any(character.isspace() for character in name):
        raise IntegrityBroken("checkpoint: a signature line is not: em dash, name, signature")
    data = _base64(encoded)
    if len(data) <= KEY_ID_BYTES:
        raise IntegrityBroken("checkpoint: a signature line is too short")
    return NoteSignature(name, data[:KEY_ID_BYTES], data[KEY_ID_BYTES:])


def _parse_body(body: str) -> Checkpoint:
    # Exactly three lines: extension lines mean nothing to any verifier of ours, so nothing is signed there.
    lines = body[:-1].split("\n")
    if len(lines) != 3 or not lines[0]:
        raise IntegrityBroken("checkpoint: not three lines: origin, size, root")
    origin, size, root = lines
    if len(size) > MAX_SIZE_DIGITS or not _NUMBER.match(size):
        raise IntegrityBroken("checkpoint: the size is not a plain decimal number")
    digest = _base64(root)
    if len(digest) != HASH_BYTES:
        raise IntegrityBroken("checkpoint: the root is not 32 bytes")
    return Checkpoint(origin, int(size), digest)


def _base64(text: str) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        data = b""
    if not data or b64encode(data).decode() != text:  # the decoder skips the unused bits of the last character
        raise IntegrityBroken("checkpoint: not base64 in its one form")
    return data
