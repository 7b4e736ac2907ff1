"""Sealing: one content key a message, wrapped for each recipient; the body streams; a manifest says what it is.

Invariants: `core` (canonical bytes that say what is sent, by whom, to whom, for which round) enters the wrapping of
the key and the encryption of the body, so that neither decrypts beside another core; a content key serves one body;
the manifest's signature covers core, wrapped key, length and digest of the ciphertext. Memory is one chunk.
Sources: RFC 9180 (HPKE, base mode), c2sp.org/chunked-encryption (Cobblestone-256), SPEC.md.

What the caller owes: `Opener` gives out chunks before the end was seen, so nothing is concluded from them before
`finalize` returned; length and digest of the ciphertext are compared with the manifest by whoever streams it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.exceptions import AlreadyFinalized, InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from secureproto.crypto.keys import PublicKey, Signer
from secureproto.errors import IntegrityBroken, Rejected
from secureproto.wire.canonical import labelled_digest, length_prefixed
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason

SEAL_LABEL = "secureproto/v1/seal"
MANIFEST_LABEL = "secureproto/v1/manifest"

KEY_LENGTH = 32
WRAPPED_LENGTH = 65 + KEY_LENGTH + 16  # ephemeral point, key, tag
MAX_SIGNATURE = 72  # a DER ECDSA-P256 signature is at most that long
_CHUNK, _TAG, _PREFIX = 16 * 1024, 16, 24 + 32  # of Cobblestone: chunk, its tag, salt and commitment
_DIGEST_LENGTH = 32

_SUITE = Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
# the second: it was broken before, and stays so
_BROKEN = (InvalidTag, AlreadyFinalized)

Chunk = bytes | bytearray | memoryview


def sealed_length(plaintext_length: int) -> int:
    """Bytes of ciphertext for so many of plaintext: the one length a valid body can have."""
    return _PREFIX + plaintext_length + _TAG * (plaintext_length // _CHUNK + 1)


class Sealer:
    """Seals one body for one or more recipients under a fresh content key.

    `wrapped` holds the content key for each recipient, in their order. `update` as often as needed, then `finalize`
    once; after it `ciphertext_length` and `ciphertext_digest` (32 bytes, SHA-256) are those of the whole.
    """

    def __init__(self, core: bytes, recipients: Sequence[PublicKey]) -> None:
        context = _context(core)
        key = Cobblestone256Encryptor.generate_key()
        self.core = core
        self.wrapped = [_SUITE.encrypt(key, r.key, info=_info(context)) for r in recipients]
        self._encryptor = Cobblestone256Encryptor(key, context)
        self._hash = sha256()
        self._length = 0
        self._digest: bytes | None = None

    def update(self, chunk: Chunk) -> bytes:
        """More plaintext in, what ciphertext is ready out. The memory taken is that of the chunk."""
        return self._count(self._encryptor.update(chunk))

    def finalize(self) -> bytes:
        """The rest of the ciphertext (never empty)."""
        rest = self._count(self._encryptor.finalize())
        self._digest = self._hash.digest()
        return rest

    @property
    def ciphertext_length(self) -> int:
        """Bytes of ciphertext. Raises ValueError before `finalize`."""
        return self._finished()[0]

    @property
    def ciphertext_digest(self) -> bytes:
        """SHA-256 of the ciphertext, 32 bytes. Raises ValueError before `finalize`."""
        return self._finished()[1]

    def _count(self, ciphertext: bytes) -> bytes:
        self._hash.update(ciphertext)
        self._length += len(ciphertext)
        return ciphertext

    def _finished(self) -> tuple[int, bytes]:
        if self._digest is None:
            raise ValueError("the body is not finished: call finalize first")
        return self._length, self._digest


class Opener:
    """Opens one body. Every failure, in the key or in the body, is Rejected(DECRYPT_FAILED) with one message, so
    that a sender learns nothing from which of them it was."""

    def __init__(self, core: bytes, wrapped: bytes, private_key: ec.EllipticCurvePrivateKey) -> None:
        context = _context(core)
        self._decryptor = Cobblestone256Decryptor(_unwrap(context, wrapped, private_key), context)

    def update(self, chunk: Chunk) -> bytes:
        """More ciphertext in, what plaintext is ready out: authentic, but perhaps not the whole."""
        try:
            return self._decryptor.update(chunk)
        except _BROKEN:
            raise _decrypt_failed() from None

    def finalize(self) -> bytes:
        """The rest of the plaintext, after which it is the whole as it was sealed."""
        try:
            return self._decryptor.finalize()
        except _BROKEN:
            raise _decrypt_failed() from None


@dataclass(frozen=True)
class SignedManifest:
    """What is sent before a body: core, wrapped key, length and SHA-256 (32 bytes) of the ciphertext, signature."""

    core: bytes
    wrapped: bytes
    ciphertext_length: int
    ciphertext_digest: bytes
    signature: bytes

    @cached_property
    def signed_part(self) -> bytes:
        """LP(core) ‖ LP(wrapped) ‖ length (8 bytes, big-endian) ‖ digest: what the signature is over, labelled."""
        return _signed_part(self.core, self.wrapped, self.ciphertext_length, self.ciphertext_digest)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the signed, labelled bytes: the manifest's name. The signature is left out, for a third
        party can make another valid one from it."""
        return labelled_digest(MANIFEST_LABEL, self.signed_part)

    def encode(self) -> bytes:
        """The bytes sent: the signed part, then LP(signature)."""
        return self.signed_part + length_prefixed(self.signature)

    @classmethod
    def parse(cls, data: bytes) -> "SignedManifest":
        """The manifest in exactly these bytes; nothing of it is verified yet.

        Raises:
            Rejected: TOO_LARGE over the limits, MALFORMED for anything else.
        """
        if len(data) > LIMITS.manifest:
            raise Rejected(Reason.TOO_LARGE, f"the manifest is over {LIMITS.manifest} bytes")
        core, rest = _take(data, LIMITS.manifest_core, Reason.TOO_LARGE)
        wrapped, rest = _take(rest, WRAPPED_LENGTH)
        length, digest, rest = rest[:8], rest[8:40], rest[40:]
        signature, rest = _take(rest, MAX_SIGNATURE)
        if len(digest) != _DIGEST_LENGTH or len(wrapped) != WRAPPED_LENGTH or rest:
            raise Rejected(Reason.MALFORMED, "the manifest's parts do not add up")
        return cls(core, wrapped, int.from_bytes(length, "big"), digest, signature)

    def verify(self, key: PublicKey) -> None:
        """Check the signature. Raises Rejected(BAD_SIGNATURE)."""
        try:
            key.verify(MANIFEST_LABEL, self.signed_part, self.signature)
        except IntegrityBroken:
            raise Rejected(Reason.BAD_SIGNATURE, "the manifest's signature does not verify") from None


def sign_manifest(sealer: Sealer, signer: Signer, *, recipient: int = 0) -> SignedManifest:
    """The signed manifest of a finished sealing, for the recipient of that index.

    Raises:
        ValueError: the sealer is not finished, or the core is over the limit.
    """
    if len(sealer.core) > LIMITS.manifest_core:
        raise ValueError(f"the core is over {LIMITS.manifest_core} bytes")
    wrapped, length, digest = sealer.wrapped[recipient], sealer.ciphertext_length, sealer.ciphertext_digest
    signature = signer.sign(MANIFEST_LABEL, _signed_part(sealer.core, wrapped, length, digest))
    return SignedManifest(sealer.core, wrapped, length, digest, signature)


def rewrap(core: bytes, wrapped: bytes, private_key: ec.EllipticCurvePrivateKey, recipient: PublicKey) -> bytes:
    """The content key of a body already sealed, wrapped for one more recipient: the body stays as it is.

    Raises:
        Rejected: DECRYPT_FAILED, when `wrapped` is not for `private_key` or not beside this core.
    """
    context = _context(core)
    return _SUITE.encrypt(_unwrap(context, wrapped, private_key), recipient.key, info=_info(context))


def _unwrap(context: bytes, wrapped: bytes, private_key: ec.EllipticCurvePrivateKey) -> bytes:
    try:
        key = _SUITE.decrypt(wrapped, private_key, info=_info(context))
    except InvalidTag:
        raise _decrypt_failed() from None
    if len(key) != KEY_LENGTH:
        raise _decrypt_failed()
    return key


def _context(core: bytes) -> bytes:
    return sha256(length_prefixed(SEAL_LABEL.encode(), core)).digest()


def _info(context: bytes) -> bytes:
    return SEAL_LABEL.encode() + context


def _signed_part(core: bytes, wrapped: bytes, length: int, digest: bytes) -> bytes:
    return length_prefixed(core, wrapped) + length.to_bytes(8, "big") + digest


def _take(data: bytes, most: int, reason: Reason = Reason.MALFORMED) -> tuple[bytes, bytes]:
    """The first length-prefixed part and what follows it; `reason` when the part is over `most` bytes."""
    length = int.from_bytes(data[:4], "big")
    if len(data) < 4 + length:
        raise Rejected(Reason.MALFORMED, "the manifest is cut short")
    if length > most:
        raise Rejected(reason, f"a part of the manifest is over {most} bytes")
    return data[4 : 4 + length], data[4 + length :]


def _decrypt_failed() -> Rejected:
    return Rejected(Reason.DECRYPT_FAILED, "the sealed body does not open")
