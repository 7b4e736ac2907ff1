"""Founding a federation: keys, certificates and the first root document, in the three places where they belong.

    ca/        the root CA's key and certificate: to be locked away, offline
    server/    settings, TLS, signing and HPKE keys, the intermediate CA, root document version 1
    operator/  the operator's key and settings, root document version 1

Invariants: every private key is written once, encrypted, mode 0600; nothing that is there is overwritten; a
founding that fails leaves a directory that the next attempt refuses, never a half federation that looks whole (the
root document is written last).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from secureproto.clock import Clock, seconds
from secureproto.crypto.certificates import Authority, check_host, new_intermediate, new_root_ca, server_certificate
from secureproto.crypto.envelope import sign_threshold
from secureproto.crypto.keys import PublicKey, generate_key, load_private, load_signer
from secureproto.crypto.passphrase import create_passphrase, read_passphrase
from secureproto.errors import Conflict, Misconfigured
from secureproto.wire import base64url
from secureproto.wire.messages import Person, RootDocument, ServerKeys

ROOT_SECONDS = 2 * 365 * 86_400  # a root document is signed anew with every site; two years is a quiet federation
NAME = re.compile(r"[a-z0-9](-?[a-z0-9])*")
SECRETS = ("ca", "server", "operator")


@dataclass(frozen=True)
class Charter:
    """What is founded. `hosts`: DNS names and addresses of the server, the first the one that invitations name."""

    federation: str
    hosts: Sequence[str]
    operator: str
    organisation: str


@dataclass(frozen=True)
class Founded:
    """What was made: the root document's digest, which people read to each other, and the passphrases made."""

    root_digest: str
    new_secrets: tuple[str, ...]


def check_name(name: str) -> None:
    """Refuse what is no name of a federation or a site. Raises Misconfigured: what is allowed."""
    if NAME.fullmatch(name) is None or len(name) > 63:
        raise Misconfigured(f"{name!r} is not a name", hint="lower case letters, digits and single dashes, up to 63")


def check(charter: Charter) -> None:
    """Refuse names that no document could hold.

    Raises:
        Misconfigured: which, and what is allowed.
    """
    check_name(charter.federation)
    for text in (charter.operator, charter.organisation, *charter.hosts):
        if not text.strip() or not text.isprintable() or len(text) > 300:
            raise Misconfigured("names of people, organisations and hosts are one printable line")
    for host in charter.hosts:
        check_host(host)


def found(directory: Path, charter: Charter, credentials: Path, clock: Clock) -> Founded:
    """Make everything.

    Raises:
        Conflict: the directory holds a federation, or part of one. Misconfigured: it cannot be written.
    """
    try:
        for name in ("ca", "server", "operator"):
            (directory / name).mkdir(mode=0o700, parents=True)
        credentials.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise Conflict(f"{directory} holds a federation already", hint="name another directory") from None
    except OSError as error:
        raise Misconfigured(f"{directory}: {error.strerror}") from None
    made = tuple(name for name in SECRETS if not (credentials / name).exists())
    for name in made:
        create_passphrase(name, credentials)
    now = seconds(clock)
    root_ca = _authorities(directory, charter, credentials, now)
    _server_tls(directory, charter, credentials, now)
    root = _root_document(directory, charter, credentials, root_ca, now)
    _settings(directory, charter, credentials)
    envelope = sign_threshold(
        root, load_signer(directory / "operator/operator.key", _secret("operator", credentials))
    )
    for name in ("operator", "server"):
        (directory / name / "root.json").write_bytes(envelope)
    return Founded(root.digest(), made)


def plan(directory: Path) -> list[str]:
    """The files that a founding makes."""
    ca = ["ca/root-ca.key", "ca/root-ca.pem"]
    server = ["intermediate.key", "intermediate.pem", "tls.key", "tls.pem", "signing.key", "hpke.key", "server.toml"]
    operator = ["operator/operator.key", "operator/operator.toml", "operator/root.json"]
    names = [*ca, *(f"server/{name}" for name in (*server, "root.json")), *operator]
    return [str(directory / name) for name in names]


def _authorities(directory: Path, charter: Charter, credentials: Path, now: int) -> x509.Certificate:
    ca_key, intermediate_key = directory / "ca/root-ca.key", directory / "server/intermediate.key"
    generate_key(ca_key, _secret("ca", credentials))
    generate_key(intermediate_key, _secret("server", credentials))
    root = new_root_ca(charter.federation, load_private(ca_key, _secret("ca", credentials)), now)
    private = load_private(intermediate_key, _secret("server", credentials))
    intermediate = new_intermediate(root, charter.federation, private, now)
    _write_pem(directory / "ca/root-ca.pem", root.certificate)
    _write_pem(directory / "server/intermediate.pem", intermediate.certificate)
    return root.certificate


def _server_tls(directory: Path, charter: Charter, credentials: Path, now: int) -> None:
    server, secret = directory / "server", _secret("server", credentials)
    public = generate_key(server / "tls.key", secret)
    certificate = x509.load_pem_x509_certificate((server / "intermediate.pem").read_bytes())
    issuer = Authority(certificate, load_private(server / "intermediate.key", secret))
    leaf = server_certificate(issuer, public, charter.hosts, now=now)
    _write_pem(server / "tls.pem", leaf, issuer.certificate)


def _root_document(
    directory: Path, charter: Charter, credentials: Path, ca: x509.Certificate, now: int
) -> RootDocument:
    server, secret = directory / "server", _secret("server", credentials)
    signing, hpke = generate_key(server / "signing.key", secret), generate_key(server / "hpke.key", secret)
    operator: PublicKey = generate_key(directory / "operator/operator.key", _secret("operator", credentials))
    person = Person(name=charter.operator, organisation=charter.organisation, role="operator", key=operator.b64)
    return RootDocument(
        federation=charter.federation,
        version=1,
        suite="p256",
        issued=now,
        expires=now + ROOT_SECONDS,
        threshold=1,
        people=(person,),
        ca=base64url.encode(ca.public_bytes(Encoding.DER)),
        server=ServerKeys(signing=(signing.b64,), hpke=(hpke.b64,)),
        sites=(),
    )


def _settings(directory: Path, charter: Charter, credentials: Path) -> None:
    names = ", ".join(f'"{host}"' for host in charter.hosts)
    where = credentials.resolve()
    (directory / "server/server.toml").write_text(
        f"""# Settings of the server; every key and its default: secureproto_server/settings.py
names = [{names}]           # what sites call the server, as its certificate says
credentials = "{where}"     # holds the passphrase `server`; under systemd remove this line, use LoadCredential=
state = "state"

[site]                      # sites come here; set the host to an address of this machine to let them in
host = "127.0.0.1"
port = 8443

[admin]                     # operators' signed requests
host = "127.0.0.1"
port = 8444

[metrics]
host = "127.0.0.1"
port = 9464

[health]
host = "127.0.0.1"
port = 8081
""",
        encoding="utf-8",
    )
    (directory / "operator/operator.toml").write_text(
        f"""# Settings of an operator's desk
federation = "{charter.federation}"
admin_url = "https://127.0.0.1:8444"   # the server's admin port
server_name = "{charter.hosts[0]}"     # the name in the server's certificate
epoch = 1                              # of the server; it changes when a server is restored from a backup
credentials = "{where}"                # holds the passphrase `operator`
""",
        encoding="utf-8",
    )


def _secret(name: str, credentials: Path) -> bytes:
    return read_passphrase(name, credentials)


def _write_pem(path: Path, *certificates: x509.Certificate) -> None:
    path.write_bytes(b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates))
