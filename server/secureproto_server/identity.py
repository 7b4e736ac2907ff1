"""The server's own keys: what it signs, opens and issues certificates with. Loaded once, at the start.

Invariant: no key of the server is sent, logged or written again. `federation init` makes the files.
"""

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from secureproto.crypto.certificates import Authority
from secureproto.crypto.keys import FileSigner, PublicKey, Signer, load_private
from secureproto.crypto.passphrase import read_passphrase
from secureproto.errors import Misconfigured
from secureproto_server.settings import Settings

CREDENTIAL = "server"  # the passphrase's file name in the credential directory


@dataclass(frozen=True)
class Identity:
    """Signer and HPKE key of the server, the intermediate authority, and where the TLS files are."""

    signer: Signer
    hpke: ec.EllipticCurvePrivateKey
    hpke_public: PublicKey
    issuer: Authority
    tls_chain: Path
    tls_key: Path
    passphrase: bytes

    @property
    def issuer_der(self) -> bytes:
        """The intermediate's certificate, which follows a leaf."""
        return self.issuer.certificate.public_bytes(Encoding.DER)


def load(settings: Settings) -> Identity:
    """The identity in the settings' directory.

    Raises:
        Misconfigured: a file is missing, readable by others, or does not open with the passphrase `server`.
    """
    base = settings.directory
    passphrase = read_passphrase(CREDENTIAL, settings.credentials)
    hpke = load_private(base / "hpke.key", passphrase)
    load_private(base / "tls.key", passphrase)  # OpenSSL reads it itself, and whatever its mode
    issuer = Authority(_certificate(base / "intermediate.pem"), load_private(base / "intermediate.key", passphrase))
    return Identity(
        signer=FileSigner(load_private(base / "signing.key", passphrase)),
        hpke=hpke,
        hpke_public=PublicKey.of(hpke.public_key()),
        issuer=issuer,
        tls_chain=base / "tls.pem",
        tls_key=base / "tls.key",
        passphrase=passphrase,
    )


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        raise Misconfigured(f"{path}: cannot be read as a certificate") from None
