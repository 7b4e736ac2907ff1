"""Verifying offline that one entry is in the log: the inclusion proof of a receipt.

Invariant: what comes out is an entry whose bytes are the leaf `index` of a tree that the log's key has signed; for
an upload's receipt, that entry also says what the receipt says.
"""

from collections.abc import Mapping, Sequence

from secureproto.audit import checkpoint as notes
from secureproto.audit.entries import Entry
from secureproto.audit.merkle import leaf_hash, verify_inclusion
from secureproto.audit.vocabulary import Action
from secureproto.crypto.keys import PublicKey
from secureproto.errors import IntegrityBroken, Rejected
from secureproto.wire import base64url
from secureproto.wire.messages import UploadReceipt


def verify_receipt(
    entry: bytes,
    proof: Sequence[bytes],
    *,
    index: int,
    checkpoint_text: str,
    origin: str,
    keys: Mapping[str, PublicKey],
) -> Entry:
    """The entry, if it is number `index` of the log `origin` at this checkpoint.

    Raises:
        IntegrityBroken: the checkpoint, the proof or the entry does not hold.
    """
    checkpoint = notes.verify(checkpoint_text, origin, keys=keys)
    verify_inclusion(leaf_hash(entry), proof, index=index, size=checkpoint.size, root=checkpoint.root)
    try:
        parsed = Entry.parse(entry)
    except Rejected as error:
        raise IntegrityBroken(f"receipt: {error.message}") from None
    if parsed.sequence != index:
        raise IntegrityBroken(f"receipt: entry {parsed.sequence} stands at place {index} of the log")
    return parsed


def verify_upload_receipt(receipt: UploadReceipt, origin: str, *, keys: Mapping[str, PublicKey]) -> Entry:
    """The log entry behind an upload's receipt; the receipt's own signature is the caller's to check.

    Raises:
        IntegrityBroken: it is not in the log, or says something else than the receipt.
    """
    try:
        entry, text = base64url.decode(receipt.entry), base64url.decode(receipt.checkpoint).decode()
    except (Rejected, UnicodeDecodeError):
        raise IntegrityBroken("receipt: entry or checkpoint is not text in base64url") from None
    parsed = verify_receipt(
        entry,
        [bytes.fromhex(digest) for digest in receipt.proof],
        index=receipt.sequence,
        checkpoint_text=text,
        origin=origin,
        keys=keys,
    )
    said = (parsed.action, parsed.study, parsed.round, parsed.actor, parsed.object_digest)
    expected = (Action.UPLOAD_ACCEPTED, receipt.study, receipt.round, receipt.site, receipt.manifest_digest)
    if said != expected:
        raise IntegrityBroken(f"receipt: entry {parsed.sequence} is not about this upload")
    return parsed
