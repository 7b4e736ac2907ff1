"""TLS certificates of a federation: an offline root, an intermediate that serves, leaves for server and sites.

Invariants: P-256 throughout; a client's certificate names its site in exactly one SAN, the URI
spiffe://<federation>/site/<id>, and can only be a client; a leaf outlives its issuer never. Certificates guard the
connection; who a site is, the signed messages say.
Sources: RFC 5280, SPIFFE X.509-SVID.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from secureproto.crypto.keys import PublicKey
from secureproto.errors import Misconfigured, Rejected
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason

DAY = 86_400
ROOT_SECONDS = 3650 * DAY  # the root is offline and pinned: its replacement is a ceremony
INTERMEDIATE_SECONDS = 730 * DAY
SERVER_SECONDS = 90 * DAY
MAX_DER = 16 * 1024  # ours are under 1 KiB
_NAME = re.compile(r"[a-z0-9](-?[a-z0-9])*")
_MAX_NAME = 63
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
_MAX_HOST = 253


@dataclass(frozen=True)
class Authority:
    """A certificate that issues others, with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def site_uri(federation: str, site: str) -> str:
    """The name of a site in certificates."""
    return f"spiffe://{federation}/site/{site}"


def new_root_ca(federation: str, key: ec.EllipticCurvePrivateKey, now: int) -> Authority:
    """A self-signed root for ten years. `now`: seconds since the epoch, here as below."""
    name = _name(federation, "root CA")
    public = PublicKey.of(key.public_key())
    builder = _builder(name, name, public, now, now + ROOT_SECONDS)
    return Authority(_as_authority(builder, path_length=1).sign(key, SHA256()), key)


def new_intermediate(root: Authority, federation: str, key: ec.EllipticCurvePrivateKey, now: int) -> Authority:
    """An authority under `root` for two years, which can issue leaves only."""
    public = PublicKey.of(key.public_key())
    builder = _issued_by(root, _name(federation, "intermediate CA"), public, now, INTERMEDIATE_SECONDS)
    return Authority(_as_authority(builder, path_length=0).sign(root.key, SHA256()), key)


def server_certificate(
    issuer: Authority, key: PublicKey, hosts: Sequence[str], *, now: int, seconds: int = SERVER_SECONDS
) -> x509.Certificate:
    """A server's certificate for DNS names and IP addresses.

    Raises:
        Misconfigured: no host, or one that is neither a DNS name nor an address.
    """
    if not hosts:
        raise Misconfigured("the server has no host name", hint="name the hosts by which sites reach it")
    builder = _issued_by(issuer, _name("secureproto", "server"), key, now, seconds)
    names = [_general_name(host) for host in hosts]
    return _as_leaf(builder, names, ExtendedKeyUsageOID.SERVER_AUTH).sign(issuer.key, SHA256())


def client_certificate(
    issuer: Authority,
    key: PublicKey,
    federation: str,
    site: str,
    *,
    now: int,
    seconds: int = LIMITS.certificate_seconds,
) -> x509.Certificate:
    """A site's certificate: short-lived, the site's URI its only name."""
    builder = _issued_by(issuer, _name(federation, site), key, now, seconds)
    names = [x509.UniformResourceIdentifier(site_uri(federation, site))]
    return _as_leaf(builder, names, ExtendedKeyUsageOID.CLIENT_AUTH).sign(issuer.key, SHA256())


def new_csr(key: ec.EllipticCurvePrivateKey, federation: str, site: str) -> bytes:
    """A site's request for a certificate, DER."""
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(site_uri(federation, site))])
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(federation, site))
    return builder.add_extension(names, critical=False).sign(key, SHA256()).public_bytes(Encoding.DER)


def key_of_csr(der: bytes, federation: str, site: str) -> PublicKey:
    """The key that a request for this site's certificate is for, its possession proved. Nothing else of the
    request enters the certificate.

    Raises:
        Rejected: MALFORMED, BAD_SIGNATURE, or for another site or federation.
    """
    try:
        csr = x509.load_der_x509_csr(_bounded(der))
        names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        public, proved = csr.public_key(), csr.is_signature_valid
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, UnsupportedAlgorithm, InvalidSignature):
        raise Rejected(Reason.MALFORMED, "the certificate request cannot be read") from None
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise Rejected(Reason.MALFORMED, "the certificate request is not for a P-256 key")
    if not proved:
        raise Rejected(Reason.BAD_SIGNATURE, "the certificate request is not signed by its own key")
    if _site_in(names, federation) != site:
        raise Rejected(Reason.MALFORMED, "the certificate request names another site")
    return PublicKey.of(public)


def site_of(der: bytes, federation: str) -> str:
    """The site that a client certificate names. Signature, chain, dates and usage were TLS's to check.

    Raises:
        Rejected: MALFORMED, WRONG_FEDERATION.
    """
    try:
        certificate = x509.load_der_x509_certificate(_bounded(der))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise Rejected(Reason.MALFORMED, "the client certificate cannot be read or has no name") from None
    return _site_in(names, federation)


def _site_in(names: x509.SubjectAlternativeName, federation: str) -> str:
    entries = list(names)
    if len(entries) != 1 or not isinstance(entries[0], x509.UniformResourceIdentifier):
        raise Rejected(Reason.MALFORMED, "the certificate has other names than one URI")
    domain, _, site = entries[0].value.removeprefix("spiffe://").partition("/site/")
    if not _NAME.fullmatch(site) or len(site) > _MAX_NAME or entries[0].value != site_uri(domain, site):
        raise Rejected(Reason.MALFORMED, "the certificate's URI does not name a site")
    if domain != federation:
        raise Rejected(Reason.WRONG_FEDERATION, "the certificate is of another federation")
    return site


def _bounded(der: bytes) -> bytes:
    if len(der) > MAX_DER:
        raise ValueError("too long")
    return der


def _name(federation: str, common: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, federation), x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


def check_host(host: str) -> None:
    """Refuse what no server certificate can name. Raises Misconfigured."""
    _general_name(host)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host) or len(host) > _MAX_HOST:
            raise Misconfigured(
                f"{host!r} is neither a DNS name nor an IP address", hint="for example fl.example.org or 192.0.2.7"
            ) from None
        return x509.DNSName(host)


def _builder(subject: x509.Name, issuer: x509.Name, key: PublicKey, start: int, end: int) -> x509.CertificateBuilder:
    # valid from a little earlier, for hosts whose clocks are behind by what the protocol allows
    since = datetime.fromtimestamp(start, UTC) - timedelta(seconds=LIMITS.clock_skew)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(datetime.fromtimestamp(end, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.key), critical=False)
    )


def _issued_by(
    issuer: Authority, subject: x509.Name, key: PublicKey, now: int, seconds: int
) -> x509.CertificateBuilder:
    end = min(now + seconds, int(issuer.certificate.not_valid_after_utc.timestamp()))
    identifier = issuer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return _builder(subject, issuer.certificate.subject, key, now, end).add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )


def _as_authority(builder: x509.CertificateBuilder, *, path_length: int) -> x509.CertificateBuilder:
    constraints = x509.BasicConstraints(ca=True, path_length=path_length)
    return builder.add_extension(constraints, critical=True).add_extension(_usage(authority=True), critical=True)


def _as_leaf(
    builder: x509.CertificateBuilder,
    names: Sequence[x509.GeneralName],
    purpose: x509.ObjectIdentifier,
) -> x509.CertificateBuilder:
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
