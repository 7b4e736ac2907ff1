"""Where the server is and how TLS to it is made: pinned to the federation's CA, never to the host's trust store.

Invariants: TLS 1.3 only; the server's certificate must chain to the CA of the pinned root document and name the
host; nothing is read from the environment (no proxy, no CA bundle, no .netrc): a proxy is a setting.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from secureproto.errors import Misconfigured

DEFAULT_PORT = 443
HTTP_PORT = 80


@dataclass(frozen=True)
class ClientCertificate:
    """The site's TLS identity: a certificate chain (PEM) and its encrypted key."""

    chain: Path
    key: Path
    passphrase: bytes = field(repr=False)


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy that a site goes out through. `ca_file`: what signs an https:// proxy's own certificate."""

    url: str
    ca_file: Path | None = None
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the proxy."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (DEFAULT_PORT if parts.scheme == "https" else HTTP_PORT)

    def context(self) -> ssl.SSLContext | None:
        """TLS to the proxy itself; None for a plain http:// proxy. Raises Misconfigured."""
        if urlsplit(self.url).scheme != "https":
            return None
        try:
            return ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        except (OSError, ssl.SSLError) as error:
            raise Misconfigured(
                f"proxy.ca_file {self.ca_file}: cannot be used: {_reason(error)}",
                hint="a PEM file with the proxy's CA",
            ) from None


@dataclass(frozen=True)
class Endpoint:
    """The server's address, the CA that vouches for it (DER), and what the site shows of itself."""

    url: str
    ca: bytes = field(repr=False)
    certificate: ClientCertificate | None = None
    proxy: Proxy | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or DEFAULT_PORT

    def context(self) -> ssl.SSLContext:
        """The TLS context. Raises Misconfigured when the site's own certificate or key cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks chain and host name
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(cadata=self.ca)
        if self.certificate is not None:
            _load(context, self.certificate)
        return context


def _load(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    try:
        context.load_cert_chain(certificate.chain, certificate.key, certificate.passphrase)
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(
            f"{certificate.chain}: certificate or key cannot be used: {_reason(error)}",
            hint="if keys and certificate do not belong together, enrol again with a new invitation",
        ) from None


def _reason(error: OSError) -> str:
    """The reason without the library's numbers and source lines."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS error").replace("_", " ").lower()
    return error.strerror or type(error).__name__
