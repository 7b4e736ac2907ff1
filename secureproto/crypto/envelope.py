"""Signed messages: canonical JSON with the payload as base64url, the key's id, the signature.

Invariants: the signature is over the label of the message's class and the payload's exact bytes, and is checked
before the payload is parsed; what comes out is a message of the class asked for, in its only encoding. Bytes that
were not verified are never a message: each way in says by what it is trusted.
Source: SPEC.md.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from secureproto.crypto.keys import PublicKey, Signer
from secureproto.errors import IntegrityBroken, Rejected
from secureproto.wire import base64url
from secureproto.wire.messages import Message
from secureproto.wire.messages.base import Base64, Digest
from secureproto.wire.reasons import Reason

M = TypeVar("M", bound=Message)


class Envelope(Message):
    """A message signed with one key."""

    key: Digest
    payload: Base64
    signature: Base64


class KeySignature(Message):
    """One of several signatures."""

    key: Digest
    signature: Base64


class SharedEnvelope(Message):
    """A message signed by several: in strict order of the key ids, so that no key counts twice."""

    payload: Base64
    signatures: tuple[KeySignature, ...]


def sign(message: Message, signer: Signer) -> bytes:
    """The signed envelope of a message."""
    payload = message.canonical()
    signature = signer.sign(_label(type(message)), payload)
    return Envelope(
        key=signer.public.key_id, payload=base64url.encode(payload), signature=base64url.encode(signature)
    ).canonical()


def verify(data: bytes, kind: type[M], keys: Mapping[str, PublicKey]) -> M:
    """The message in an envelope signed by one of `keys` (by key id).

    Raises:
        Rejected: MALFORMED, UNKNOWN_KEY, BAD_SIGNATURE.
    """
    envelope = Envelope.parse(data)
    payload = base64url.decode(envelope.payload)
    _check(_known(envelope.key, keys), kind, payload, envelope.signature)
    return kind.parse(payload)


def verify_self_signed(data: bytes, kind: type[M], key_of: Callable[[M], PublicKey]) -> M:
    """The message in an envelope signed by the key that the message itself brings (an enrolment).

    This proves that the sender holds that key, and nothing about who the sender is: the caller owes that.

    Raises:
        Rejected: MALFORMED, UNKNOWN_KEY (signed by another key than it brings), BAD_SIGNATURE.
    """
    key = key_of(kind.parse(base64url.decode(Envelope.parse(data).payload)))
    return verify(data, kind, {key.key_id: key})


def peek_key(data: bytes) -> str:
    """The id of the key that an envelope says it is signed with: unverified, to find the sender by.

    Raises:
        Rejected: MALFORMED.
    """
    return Envelope.parse(data).key


def sign_threshold(message: Message, signer: Signer) -> bytes:
    """A document that several sign, with its first signature."""
    return _add(message, signer, ())


def countersign(data: bytes, kind: type[M], signer: Signer) -> bytes:
    """The document with this signer's signature added; as it was when the signer has signed before.

    The other signatures are not checked here: `verify_threshold` does that.

    Raises:
        Rejected: MALFORMED.
    """
    envelope = SharedEnvelope.parse(data)
    if any(entry.key == signer.public.key_id for entry in envelope.signatures):
        return data
    return _add(kind.parse(base64url.decode(envelope.payload)), signer, envelope.signatures)


def verify_threshold(data: bytes, kind: type[M], keys: Mapping[str, PublicKey], threshold: int) -> M:
    """The document, if at least `threshold` of `keys` signed it. Signatures of other keys are passed over, for a
    new version of a document may bring signers that the old one did not know.

    Raises:
        Rejected: MALFORMED, BAD_SIGNATURE (too few, or one of a known key does not verify).
        ValueError: the threshold is below one.
    """
    if threshold < 1:
        raise ValueError("a threshold below one verifies nothing")
    envelope = SharedEnvelope.parse(data)
    ids = [entry.key for entry in envelope.signatures]
    if ids != sorted(set(ids)):
        raise Rejected(Reason.MALFORMED, "signatures are not in strict order of their keys")
    payload = base64url.decode(envelope.payload)
    known = [entry for entry in envelope.signatures if entry.key in keys]
    for entry in known:
        _check(keys[entry.key], kind, payload, entry.signature)
    if len(known) < threshold:
        raise Rejected(Reason.BAD_SIGNATURE, f"signed by {len(known)} known keys, {threshold} are needed")
    return kind.parse(payload)


def open_pinned(data: bytes, kind: type[M], digest: str) -> M:
    """The document of several signers whose digest (`Message.digest`) was learnt from elsewhere: the root document
    that a site first meets. Its own signers may then be read from it and checked with `verify_threshold`.

    Raises:
        Rejected: MALFORMED.
        IntegrityBroken: it is another document.
    """
    message = unverified(data, kind, SharedEnvelope)
    if message.digest() != digest:
        raise IntegrityBroken(f"{kind.__name__} is not the one whose digest was given")
    return message


def unverified(data: bytes, kind: type[M], form: type[Envelope | SharedEnvelope]) -> M:
    """What an envelope says, whoever signed it: for bytes that were verified before this host stored them, and for
    finding the keys that the verification after it will use. Raises Rejected(MALFORMED)."""
    return kind.parse(base64url.decode(form.parse(data).payload))


def _add(message: Message, signer: Signer, others: tuple[KeySignature, ...]) -> bytes:
    payload = message.canonical()
    signature = base64url.encode(signer.sign(_label(type(message)), payload))
    mine = KeySignature(key=signer.public.key_id, signature=signature)
    ordered = tuple(sorted((*others, mine), key=lambda entry: entry.key))
    return SharedEnvelope(payload=base64url.encode(payload), signatures=ordered).canonical()


def _known(key_id: str, keys: Mapping[str, PublicKey]) -> PublicKey:
    key = keys.get(key_id)
    if key is None:
        raise Rejected(Reason.UNKNOWN_KEY, f"signed by the unknown key {key_id[:16]}")
    return key


def _check(key: PublicKey, kind: type[Message], payload: bytes, signature: str) -> None:
    try:
        key.verify(_label(kind), payload, base64url.decode(signature))
    except IntegrityBroken as error:
        raise Rejected(Reason.BAD_SIGNATURE, error.message) from None


def _label(kind: type[Message]) -> str:
    if not kind.LABEL:
        raise ValueError(f"{kind.__name__} has no label: it is part of a message, and never signed alone")
    return kind.LABEL
