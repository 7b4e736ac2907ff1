"""The site's TLS certificate: checked before it is used, renewed at half-life, without a restart.

Invariants: only a certificate for our own key and name, issued under the CA of the root document in force, is ever
written; renewal is signed by the enrolled signing key and shows no client certificate, so a site that was off for a
week comes back by itself.
"""

import logging
from collections.abc import Sequence
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from secureproto.clock import utc_text
from secureproto.crypto import envelope
from secureproto.crypto.certificates import new_csr, site_of
from secureproto.crypto.keys import PublicKey
from secureproto.errors import IntegrityBroken, Misconfigured, Rejected
from secureproto.wire import base64url
from secureproto.wire.messages import EnrolmentReply, RenewalRequest
from secureproto_client.durable import replace
from secureproto_client.identity import Identity
from secureproto_client.link import Link
from secureproto_client.paths import SitePaths
from secureproto_client.problems import demand
from secureproto_client.transport.seam import Transport
from secureproto_client.trust import Trust

PATH = "/v1/renewals"
MAX_CHAIN = 3  # leaf, intermediate, and room for one more

log = logging.getLogger(__name__)


def install(paths: SitePaths, chain: Sequence[str], identity: Identity, trust: Trust) -> None:
    """Check a chain that the server sent (DER in base64url, leaf first) and make it the one in use.

    Raises:
        IntegrityBroken: not for our key and name, or not under the federation's CA.
    """
    try:
        certificates = [x509.load_der_x509_certificate(base64url.decode(text)) for text in chain[: MAX_CHAIN + 1]]
        named = site_of(base64url.decode(chain[0]), identity.federation) if chain else ""
    except (Rejected, ValueError):
        raise IntegrityBroken("the server's certificate for this site cannot be read") from None
    if not 2 <= len(certificates) <= MAX_CHAIN or named != identity.site:
        raise IntegrityBroken("the server's certificate is not for this site")
    if _key(certificates[0]) != identity.keys.tls:
        raise IntegrityBroken("the server's certificate is for another key than this site's")
    _demand_chain([*certificates, x509.load_der_x509_certificate(trust.ca)])
    replace(paths.certificate, b"".join(each.public_bytes(Encoding.PEM) for each in certificates))


def leaf(paths: SitePaths) -> x509.Certificate:
    """The certificate in use. Raises Misconfigured when there is none."""
    try:
        return x509.load_pem_x509_certificate(paths.certificate.read_bytes())
    except (OSError, ValueError):
        raise Misconfigured(
            f"{paths.certificate}: no certificate", hint="the enrolment is not complete: run `client enroll` again"
        ) from None


def expires(paths: SitePaths) -> int:
    """When the certificate in use ends. Raises Misconfigured when there is none."""
    return int(leaf(paths).not_valid_after_utc.timestamp())


def due(paths: SitePaths, now: int) -> bool:
    """Whether half of the certificate's life is over. Raises Misconfigured when there is none."""
    certificate = leaf(paths)
    start, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return now >= (start + end) / 2


def renew(paths: SitePaths, identity: Identity, link: Link, now: int) -> None:
    """Get a new certificate for the same key, and use it from the next request on. One try: the caller repeats.

    Raises:
        Unavailable: no answer.
        Rejected: the server does not know or no longer admits this site.
        IntegrityBroken: what came is not for us.
    """
    csr = base64url.encode(new_csr(identity.tls, identity.federation, identity.site))
    request = RenewalRequest(federation=identity.federation, site=identity.site, csr=csr, issued=now)
    body = envelope.sign(request, identity.signer)

    def once(transport: Transport) -> EnrolmentReply:
        return link.trust.from_server(demand(transport.post(PATH, body), 200), EnrolmentReply)

    reply = link.once_bare(once)
    install(paths, reply.certificates, identity, link.trust)
    link.renew()
    log.info("TLS certificate renewed, good until %s", utc_text(expires(paths)))


def _demand_chain(chain: Sequence[x509.Certificate]) -> None:
    for certificate, issuer in pairwise(chain):
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            raise IntegrityBroken("the server's certificate for this site is not of the federation's CA") from None


def _key(certificate: x509.Certificate) -> str:
    public = certificate.public_key()
    return PublicKey.of(public).b64 if isinstance(public, ec.EllipticCurvePublicKey) else ""
