"""Certificates: read back, refused when they name anything else, and taken by a real TLS 1.3 handshake."""

import ssl
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from secureproto.clock import SystemClock, seconds
from secureproto.crypto.certificates import (
    DAY,
    Authority,
    client_certificate,
    key_of_csr,
    new_csr,
    new_intermediate,
    new_root_ca,
    server_certificate,
    site_of,
    site_uri,
)
from secureproto.crypto.keys import PublicKey
from secureproto.errors import Misconfigured, Rejected
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason

NOW = seconds(SystemClock())


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public(key: ec.EllipticCurvePrivateKey) -> PublicKey:
    return PublicKey.of(key.public_key())


ROOT = new_root_ca("cardio", new_key(), NOW)
INTERMEDIATE = new_intermediate(ROOT, "cardio", new_key(), NOW)
SITE_KEY, SERVER_KEY = new_key(), new_key()
CLIENT = client_certificate(INTERMEDIATE, public(SITE_KEY), "cardio", "cleveland", now=NOW)
SERVER = server_certificate(INTERMEDIATE, public(SERVER_KEY), ["fl.example.org", "127.0.0.1", "::1"], now=NOW)


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def test_a_client_certificate_names_its_site_alone_and_briefly() -> None:
    assert site_of(der(CLIENT), "cardio") == "cleveland"
    assert CLIENT.not_valid_after_utc == datetime.fromtimestamp(NOW + LIMITS.certificate_seconds, UTC)
    usage = CLIENT.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    CLIENT.verify_directly_issued_by(INTERMEDIATE.certificate)
    INTERMEDIATE.certificate.verify_directly_issued_by(ROOT.certificate)


@pytest.mark.parametrize(("authority", "below"), [(ROOT, 1), (INTERMEDIATE, 0)])
def test_an_authority_may_have_so_many_below_it(authority: Authority, below: int) -> None:
    constraints = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=below)


def test_serial_numbers_are_random() -> None:
    again = client_certificate(INTERMEDIATE, public(SITE_KEY), "cardio", "cleveland", now=NOW)
    assert again.serial_number != CLIENT.serial_number
    assert CLIENT.serial_number.bit_length() > 100


def test_a_leaf_does_not_outlive_its_issuer() -> None:
    late = NOW + 729 * DAY
    leaf = client_certificate(INTERMEDIATE, public(SITE_KEY), "cardio", "cleveland", now=late)
    assert leaf.not_valid_after_utc == INTERMEDIATE.certificate.not_valid_after_utc


def test_a_request_proves_its_key() -> None:
    assert key_of_csr(new_csr(SITE_KEY, "cardio", "cleveland"), "cardio", "cleveland") == public(SITE_KEY)


def _csr(names: Iterable[x509.GeneralName], key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = SITE_KEY) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


def _uri(text: str) -> x509.UniformResourceIdentifier:
    return x509.UniformResourceIdentifier(text)


SITE = _uri(site_uri("cardio", "cleveland"))
_NAMES: dict[str, tuple[list[x509.GeneralName], Reason]] = {
    "another federation": ([_uri("spiffe://other/site/cleveland")], Reason.WRONG_FEDERATION),
    "two names": ([SITE, x509.DNSName("cleveland")], Reason.MALFORMED),
    "the name twice": ([SITE, SITE], Reason.MALFORMED),
    "no URI": ([x509.DNSName("spiffe://cardio/site/cleveland")], Reason.MALFORMED),
    "another scheme": ([_uri("https://cardio/site/cleveland")], Reason.MALFORMED),
    "no scheme": ([_uri("cardio/site/cleveland")], Reason.MALFORMED),
    "a longer path": ([_uri("spiffe://cardio/site/cleveland/x")], Reason.MALFORMED),
    "upper case": ([_uri("spiffe://cardio/site/Cleveland")], Reason.MALFORMED),
    "escaped": ([_uri("spiffe://cardio/site/cleve%6Cand")], Reason.MALFORMED),
    "trailing newline": ([_uri("spiffe://cardio/site/cleveland\n")], Reason.MALFORMED),
    "a name of 64": ([_uri("spiffe://cardio/site/" + "a" * 64)], Reason.MALFORMED),
    "a server's": ([_uri("spiffe://cardio/server/cleveland")], Reason.MALFORMED),
}


@pytest.mark.parametrize("case", _NAMES)
def test_other_names_are_refused_in_certificates_and_requests(case: str) -> None:
    names, reason = _NAMES[case]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(SITE_KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(NOW, UTC))
        .not_valid_after(datetime.fromtimestamp(NOW + DAY, UTC))
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
    )
    attempts: list[Callable[[], object]] = [
        lambda: site_of(der(builder.sign(SITE_KEY, SHA256())), "cardio"),
        lambda: key_of_csr(_csr(names), "cardio", "cleveland"),
    ]
    for attempt in attempts:
        with pytest.raises(Rejected) as caught:
            attempt()
        assert caught.value.reason is reason


def test_requests_for_another_site_key_or_signature_are_refused() -> None:
    altered = bytearray(new_csr(SITE_KEY, "cardio", "cleveland"))
    altered[-1] ^= 1
    cases = {
        "names another site": new_csr(SITE_KEY, "cardio", "hungary"),
        "not for a P-256 key": _csr([SITE], rsa.generate_private_key(65537, 2048)),
        "not signed by its own key": bytes(altered),
        "cannot be read": b"0\x00",
        "cannot be": x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .sign(SITE_KEY, SHA256())
        .public_bytes(Encoding.DER),
    }
    for says, csr in cases.items():
        with pytest.raises(Rejected, match=says):
            key_of_csr(csr, "cardio", "cleveland")


def test_certificates_without_a_name_or_too_long_are_refused() -> None:
    for data in (b"", b"0\x00", der(ROOT.certificate), bytes(20_000)):
        with pytest.raises(Rejected, match="cannot be read or has no name"):
            site_of(data, "cardio")


@pytest.mark.parametrize("hosts", [[], ["bad host"], ["-x.org"], [""], ["a..b"], ["https://x.org"], ["*.x.org"]])
def test_hosts_that_are_none_are_our_own_fault(hosts: list[str]) -> None:
    with pytest.raises(Misconfigured, match=r"host name|neither a DNS name"):
        server_certificate(INTERMEDIATE, public(SERVER_KEY), hosts, now=NOW)


End = tuple[list[x509.Certificate], ec.EllipticCurvePrivateKey]  # the chain that an end shows, and its key
SERVER_END: End = ([SERVER, INTERMEDIATE.certificate], SERVER_KEY)
CLIENT_END: End = ([CLIENT, INTERMEDIATE.certificate], SITE_KEY)


def _context(server: bool, directory: Path, end: End) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=der(ROOT.certificate))
    chain, key = end
    pem = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain)
    path = directory / f"{server}.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + pem)
    context.load_cert_chain(path)
    return context


def handshake(directory: Path, server: End, client: End, host: str) -> bytes:
    """The client's certificate as the server sees it after a handshake in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        _context(False, directory, client).wrap_bio(down, up, server_hostname=host),
        _context(True, directory, server).wrap_bio(up, down, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1].getpeercert(binary_form=True) or b""


@pytest.mark.parametrize("host", ["fl.example.org", "127.0.0.1", "::1"])
def test_tls_1_3_takes_both_chains_under_strict_rules(tmp_path: Path, host: str) -> None:
    assert site_of(handshake(tmp_path, SERVER_END, CLIENT_END, host), "cardio") == "cleveland"


def _client(issuer: Authority, now: int = NOW) -> x509.Certificate:
    return client_certificate(issuer, public(SITE_KEY), "cardio", "hungary", now=now)


def _bad_ends() -> dict[str, tuple[End, End, str, str]]:
    stranger = new_intermediate(new_root_ca("cardio", new_key(), NOW), "cardio", new_key(), NOW)
    deeper = new_intermediate(INTERMEDIATE, "cardio-2", new_key(), NOW)
    chain, host = [INTERMEDIATE.certificate], "fl.example.org"
    as_client = server_certificate(INTERMEDIATE, public(SITE_KEY), ["cleveland"], now=NOW)
    return {
        "another host": (SERVER_END, CLIENT_END, "other.example.org", "Hostname mismatch"),
        "a client as a server": (CLIENT_END, CLIENT_END, host, "unsuitable certificate purpose"),
        "a server as a client": (
            SERVER_END,
            ([as_client, *chain], SITE_KEY),
            host,
            "unsuitable certificate purpose",
        ),
        "another root": (
            SERVER_END,
            ([_client(stranger), stranger.certificate], SITE_KEY),
            host,
            "unable to get local issuer",
        ),
        "expired": (
            SERVER_END,
            ([_client(INTERMEDIATE, NOW - 30 * DAY), *chain], SITE_KEY),
            host,
            "certificate has expired",
        ),
        "issued by a leaf": (
            SERVER_END,
            ([_client(Authority(CLIENT, SITE_KEY)), CLIENT, *chain], SITE_KEY),
            host,
            "invalid CA certificate",
        ),
        "a second intermediate": (
            SERVER_END,
            ([_client(deeper), deeper.certificate, *chain], SITE_KEY),
            host,
            "path length constraint exceeded",
        ),
    }


@pytest.mark.parametrize("case", list(_bad_ends()))
def test_tls_refuses_what_is_not_ours(tmp_path: Path, case: str) -> None:
    server, client, host, says = _bad_ends()[case]
    with pytest.raises(ssl.SSLCertVerificationError, match=says):
        handshake(tmp_path, server, client, host)
