"""P-256 keys: public keys with their ids, signatures under a label, private keys in encrypted files.

Invariants: a key id is hex SHA-256 of the one DER form of the key (SPKI, named curve, uncompressed point), so a key
has one id; every signature is over a label and the data, both length-prefixed, so a signature given for one kind of
thing never verifies as another. ECDSA signatures are malleable: nothing may identify a thing by its signature.
Source: FIPS 186-5, RFC 5480, RFC 5958; the label as in SPEC.md.
"""

from hashlib import sha256
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)

from secureproto.crypto.keyfile import read_private, write_once
from secureproto.errors import IntegrityBroken, Misconfigured, Rejected
from secureproto.wire import base64url
from secureproto.wire.canonical import length_prefixed
from secureproto.wire.reasons import Reason

SPKI_LENGTH = 91  # of every P-256 key in the one accepted form
_ALGORITHM = ec.ECDSA(hashes.SHA256())


class PublicKey:
    """A P-256 public key: checked to be a point of that curve, in the one accepted encoding, when it is made."""

    def __init__(self, spki: bytes) -> None:
        """Take the DER SubjectPublicKeyInfo.

        Raises:
            Rejected: MALFORMED, when it is not a P-256 key in the accepted form.
        """
        self.key = _load_public(spki)  # for key agreement (sealing) and for certificates
        self.spki = spki
        self.key_id = sha256(spki).hexdigest()

    @classmethod
    def of(cls, key: ec.EllipticCurvePublicKey) -> "PublicKey":
        """The public key of a `cryptography` key object. Raises: as the constructor."""
        return cls(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    @classmethod
    def from_b64(cls, text: str) -> "PublicKey":
        """The public key of what `b64` gives. Raises: as the constructor."""
        return cls(base64url.decode(text))

    @property
    def b64(self) -> str:
        """The DER SPKI as base64url without padding."""
        return base64url.encode(self.spki)

    def verify(self, label: str, data: bytes, signature: bytes) -> None:
        """Check that the holder of this key signed `data` as a thing of kind `label`.

        Raises:
            IntegrityBroken: it is not so.
        """
        try:
            self.key.verify(signature, _pre_image(label, data), _ALGORITHM)
        except InvalidSignature:
            raise IntegrityBroken(f"signature of key {self.key_id[:16]} over {label} does not verify") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and other.spki == self.spki

    def __hash__(self) -> int:
        return hash(self.spki)

    def __repr__(self) -> str:
        return f"PublicKey({self.key_id[:16]})"


class Signer(Protocol):
    """Whoever can sign with one key: a file's key here, an HSM or a key service elsewhere."""

    @property
    def public(self) -> PublicKey:
        """The key that verifies."""
        ...

    def sign(self, label: str, data: bytes) -> bytes:
        """The DER ECDSA-P256-SHA256 signature over LP(label) ‖ LP(data)."""
        ...


class FileSigner:
    """The Signer of a private key held in memory, as `load_signer` takes it from a file."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private
        self._public = PublicKey.of(private.public_key())

    @property
    def public(self) -> PublicKey:
        return self._public

    def sign(self, label: str, data: bytes) -> bytes:
        return self._private.sign(_pre_image(label, data), _ALGORITHM)


def generate_key(path: Path, passphrase: bytes) -> PublicKey:
    """Make a key pair, write the private key to `path` (encrypted PKCS#8 PEM, mode 0600), return the public key.

    Raises:
        Conflict: the file is there already.
        Misconfigured: the directory cannot be written, or the passphrase is empty or over 1023 bytes.
    """
    private = ec.generate_private_key(ec.SECP256R1())
    try:
        encryption = BestAvailableEncryption(passphrase)
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    except ValueError:
        raise Misconfigured(f"the passphrase for {path} is empty or over 1023 bytes") from None
    write_once(path, pem)
    return PublicKey.of(private.public_key())


def load_private(path: Path, passphrase: bytes) -> ec.EllipticCurvePrivateKey:
    """The private key in `path`.

    Raises:
        Misconfigured: missing, readable by others, not encrypted, wrong passphrase, not a P-256 key.
    """
    pem = read_private(path)
    try:
        key = load_pem_private_key(pem, passphrase)
    except TypeError:
        raise Misconfigured(f"{path} is not encrypted", hint="keys are kept encrypted: make a new one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise Misconfigured(
            f"{path} does not open: the passphrase is wrong or it is no PEM private key",
            hint="check the file in the credential directory that belongs to this key",
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Misconfigured(f"{path} is not a P-256 key", hint="this federation's suite takes P-256 only")
    return key


def load_signer(path: Path, passphrase: bytes) -> FileSigner:
    """The Signer of the private key in `path`. Raises: as `load_private`."""
    return FileSigner(load_private(path, passphrase))


def _pre_image(label: str, data: bytes) -> bytes:
    return length_prefixed(label.encode(), data)


def _load_public(spki: bytes) -> ec.EllipticCurvePublicKey:
    if len(spki) != SPKI_LENGTH:  # before any parser sees it
        raise Rejected(Reason.MALFORMED, "a public key is not a P-256 key in SPKI form")
    try:
        key = load_der_public_key(spki)
    except (ValueError, UnsupportedAlgorithm):
        raise Rejected(Reason.MALFORMED, "a public key is not DER, or not a point of its curve") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Rejected(Reason.MALFORMED, "a public key is not of curve P-256")
    if key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != spki:
        raise Rejected(Reason.MALFORMED, "a public key is not in its one accepted form")
    return key
