"""TLS with real certificates on real sockets: what is seen of a client, and which clients are not let in."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509 import Certificate

from secureproto.clock import SystemClock, seconds
from secureproto.crypto.certificates import (
    Authority,
    client_certificate,
    new_intermediate,
    new_root_ca,
    server_certificate,
    site_of,
)
from secureproto.crypto.keys import PublicKey
from secureproto.errors import Misconfigured
from secureproto_server.http.guard import Guard
from secureproto_server.http.protocol import peer_certificate
from secureproto_server.http.tls import ServerIdentity, load_identity, server_context
from support.listening import HOST, Raw, Seen, echo, listening

GET = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"
NOW = seconds(SystemClock())


def pem(*certificates: Certificate) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def key_file(path: Path, key: ec.EllipticCurvePrivateKey, passphrase: bytes | None) -> Path:
    encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return path


@dataclass
class Federation:
    """A root, an intermediate, and a directory for files."""

    directory: Path
    root: Authority
    intermediate: Authority

    def server(self, name: str = "server") -> ServerIdentity:
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = server_certificate(self.intermediate, PublicKey.of(key.public_key()), ["localhost"], now=NOW)
        chain = self.directory / f"{name}.pem"
        chain.write_bytes(pem(leaf, self.intermediate.certificate))
        return ServerIdentity(chain, key_file(self.directory / f"{name}.key", key, b"secret"), b"secret")

    def client(self, site: str | None, *, now: int = NOW) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=pem(self.root.certificate).decode())
        if site is not None:
            key = ec.generate_private_key(ec.SECP256R1())
            public = PublicKey.of(key.public_key())
            leaf = client_certificate(self.intermediate, public, "demo", site, now=now)
            chain = self.directory / f"{site}.pem"
            chain.write_bytes(pem(leaf, self.intermediate.certificate))
            context.load_cert_chain(chain, key_file(self.directory / f"{site}.key", key, None))
        return context

    @property
    def client_ca(self) -> str:
        return pem(self.root.certificate, self.intermediate.certificate).decode()


def new_federation(directory: Path) -> Federation:
    root = new_root_ca("demo", ec.generate_private_key(ec.SECP256R1()), NOW)
    intermediate = new_intermediate(root, "demo", ec.generate_private_key(ec.SECP256R1()), NOW)
    return Federation(directory, root, intermediate)


def let_in(port: int, tls: ssl.SSLContext) -> bool:
    """Whether a request gets through; TLS 1.3 tells a client of its refusal only after its own handshake."""
    try:
        with Raw(port, tls=tls) as raw:
            raw.send(GET)
            return not raw.closed()
    except OSError:
        return False


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return new_federation(tmp_path)


@pytest.fixture
def served(federation: Federation) -> Iterator[tuple[int, Seen]]:
    seen = Seen()
    tls = server_context(federation.server(), client_ca=federation.client_ca)
    guard = Guard(hosts=frozenset({"localhost"}), max_body=1 << 22, header_seconds=2, linger_seconds=1)
    with listening(echo(seen), guard, tls=tls) as port:
        yield port, seen


def test_a_sites_certificate_reaches_the_application(federation: Federation, served: tuple[int, Seen]) -> None:
    port, seen = served
    with Raw(port, tls=federation.client("site-a")) as raw:
        raw.send(GET)
        assert raw.response()[0] == 200
        raw.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 2000000\r\n\r\n" + bytes(2_000_000))
        assert raw.response() == (200, b"2000000")
    for scope in seen.scopes:
        der = peer_certificate(scope)
        assert der is not None
        assert site_of(der, "demo") == "site-a"
        assert scope["scheme"] == "https"


def test_without_a_certificate_there_is_none(federation: Federation, served: tuple[int, Seen]) -> None:
    port, seen = served
    assert let_in(port, federation.client(None))
    assert peer_certificate(seen.scopes[0]) is None


def test_certificates_of_two_connections_are_not_mixed_up(federation: Federation, served: tuple[int, Seen]) -> None:
    port, seen = served
    with (
        Raw(port, tls=federation.client("site-a")) as first,
        Raw(port, tls=federation.client(None)) as second,
        Raw(port, tls=federation.client("site-b")) as third,
    ):
        for raw in (first, second, third, first):
            raw.send(GET)
            assert raw.response()[0] == 200
    ders = [peer_certificate(scope) for scope in seen.scopes]
    assert [der and site_of(der, "demo") for der in ders] == ["site-a", None, "site-b", "site-a"]


@pytest.mark.parametrize("age", [30 * 86_400, -86_400])
def test_an_expired_or_future_certificate_is_not_let_in(
    federation: Federation, served: tuple[int, Seen], age: int
) -> None:
    port, seen = served
    assert not let_in(port, federation.client("site-a", now=NOW - age))
    assert seen.scopes == []


def test_a_certificate_of_another_federation_is_not_let_in(
    federation: Federation, served: tuple[int, Seen], tmp_path: Path
) -> None:
    port, seen = served
    other = new_federation(tmp_path)
    other.root = Authority(federation.root.certificate, other.root.key)  # trusts our server, signed by another
    assert not let_in(port, other.client("site-a"))
    assert seen.scopes == []


def test_only_tls_1_3_and_no_resumption(federation: Federation, served: tuple[int, Seen]) -> None:
    port, _ = served
    context = federation.client("site-a")
    with Raw(port, tls=context) as raw:
        raw.send(GET)
        assert raw.response()[0] == 200
        assert isinstance(raw.socket, ssl.SSLSocket)
        assert raw.socket.version() == "TLSv1.3"
        session = raw.socket.session
        assert session is None or not session.has_ticket
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert not let_in(port, context)


def test_slow_headers_are_cut_over_tls_too(federation: Federation, served: tuple[int, Seen]) -> None:
    port, _ = served
    with Raw(port, tls=federation.client("site-a")) as raw:
        raw.drip(GET * 10, every=0.1)
        assert raw.response()[0] == 408
        assert raw.closed()


def test_plain_http_to_the_tls_port_gets_nothing(served: tuple[int, Seen]) -> None:
    port, seen = served
    with Raw(port) as raw:
        raw.send(GET)
        assert raw.closed()
    assert seen.scopes == []


def test_a_renewed_certificate_is_presented_without_a_restart(federation: Federation) -> None:
    seen = Seen()
    tls = server_context(federation.server())
    with listening(echo(seen), Guard(hosts=frozenset({"localhost"})), tls=tls) as port:
        presented = []
        for name in ("first", "second"):
            load_identity(tls, federation.server(name))
            with Raw(port, tls=federation.client(None)) as raw:
                assert isinstance(raw.socket, ssl.SSLSocket)
                presented.append(raw.socket.getpeercert(binary_form=True))
    assert presented[0] != presented[1]


def test_wrong_files_are_one_line(federation: Federation) -> None:
    good, other = federation.server("good"), federation.server("other")
    bad_pem = federation.directory / "bad.pem"
    bad_pem.write_bytes(b"nothing")
    for identity, message in (
        (ServerIdentity(federation.directory / "none", good.key, b"secret"), "none does not exist"),
        (ServerIdentity(good.chain, federation.directory / "none", b"secret"), "none does not exist"),
        (ServerIdentity(good.chain, other.key, b"secret"), "do not belong together"),
        (ServerIdentity(good.chain, good.key, b"wrong"), "cannot use"),
        (ServerIdentity(bad_pem, good.key, b"secret"), "cannot use"),
    ):
        with pytest.raises(Misconfigured, match=message) as refused:
            server_context(identity)
        assert "\n" not in str(refused.value)
        assert "secret" not in str(refused.value)
    with pytest.raises(Misconfigured, match="PEM"):
        server_context(good, client_ca="nothing")
