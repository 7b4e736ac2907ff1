"""Who this site is: names and address from the invitation, three key pairs made here.

Invariants: the private keys are read once, from encrypted files that only their owner may read; `site.json` holds
no secret and is written once, at enrolment.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from cryptography.hazmat.primitives.asymmetric import ec

from secureproto.crypto.keys import FileSigner, PublicKey, Signer, generate_key, load_private
from secureproto.errors import Conflict, Misconfigured, Rejected
from secureproto.regular import read_regular
from secureproto.wire.messages import Message, PublicKeys
from secureproto.wire.messages.base import Digest, Line, Name
from secureproto_client.durable import replace
from secureproto_client.paths import SitePaths
from secureproto_client.transport.endpoint import ClientCertificate

PASSPHRASE = "site"  # noqa: S105 - the name of the credential's file, not a passphrase


class SiteFile(Message):
    """What the site keeps of its invitation. `root_digest`: of the first root document it was shown."""

    LABEL: ClassVar[str] = "secureproto/v1/site-file"
    federation: Name
    site: Name
    server: Line
    root_digest: Digest


@dataclass(frozen=True)
class Identity:
    """The site with its keys."""

    file: SiteFile
    signer: Signer
    hpke: ec.EllipticCurvePrivateKey
    tls: ec.EllipticCurvePrivateKey
    certificate: ClientCertificate

    @property
    def federation(self) -> str:
        return self.file.federation

    @property
    def site(self) -> str:
        return self.file.site

    @cached_property
    def keys(self) -> PublicKeys:
        """The three public keys, as the roster has them."""
        return PublicKeys(
            tls=PublicKey.of(self.tls.public_key()).b64,
            signing=self.signer.public.b64,
            hpke=PublicKey.of(self.hpke.public_key()).b64,
        )


def read_site_file(paths: SitePaths) -> SiteFile:
    """What the site is called. Raises Misconfigured when it is not enrolled."""
    try:
        return SiteFile.parse(read_regular(paths.site))
    except OSError as error:
        raise Misconfigured(
            f"{paths.root} is not a site's directory: cannot read site.json: {error.strerror}",
            hint="enrol first: secureproto client enroll --invitation FILE --site-dir DIR",
        ) from None
    except Rejected as error:
        raise Misconfigured(f"{paths.site}: {error.message}", hint="restore it from the backup") from None


def write_site_file(paths: SitePaths, file: SiteFile) -> None:
    """Write `site.json`. Raises Conflict when the directory belongs to another site or federation."""
    if paths.site.exists() and read_site_file(paths) != file:
        raise Conflict(
            f"{paths.root} belongs to site {read_site_file(paths).site} under another invitation",
            hint="give each site and federation its own --site-dir",
        )
    replace(paths.site, file.canonical())


def make_keys(paths: SitePaths, passphrase: bytes) -> None:
    """Make those of the three key pairs that are missing."""
    for path in (paths.tls_key, paths.signing_key, paths.hpke_key):
        if not path.exists():
            generate_key(path, passphrase)


def load(paths: SitePaths, passphrase: bytes) -> Identity:
    """The site of a directory. Raises Misconfigured when a file is missing or does not open."""
    return Identity(
        file=read_site_file(paths),
        signer=FileSigner(load_private(paths.signing_key, passphrase)),
        hpke=load_private(paths.hpke_key, passphrase),
        tls=load_private(paths.tls_key, passphrase),
        certificate=ClientCertificate(paths.certificate, paths.tls_key, passphrase),
    )
