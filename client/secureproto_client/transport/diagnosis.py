"""Why the server cannot be reached: proxy, DNS, TCP, TLS, HTTP, tried one after the other until one fails.

Each step says what it tried, what it saw, and what to do. Nothing is sent that the site would not send anyway: the
HTTP step asks for a path that does not exist, without the site's certificate.
"""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509

from secureproto.errors import Misconfigured, Unavailable
from secureproto_client.transport.endpoint import Endpoint
from secureproto_client.transport.https import HttpsTransport
from secureproto_client.transport.tunnel import Refused, connect, resolve, through

PROBE_PATH = "/v1/"
SECONDS = 5.0  # a step; five of them stay under half a minute


@dataclass(frozen=True)
class Finding:
    """One step of a diagnosis."""

    step: str
    ok: bool
    evidence: str
    advice: str = ""

    def __str__(self) -> str:
        line = f"{self.step}: {'ok' if self.ok else 'FAILED'}: {self.evidence}"
        return f"{line}; {self.advice}" if self.advice else line


def diagnose(endpoint: Endpoint) -> list[Finding]:
    """The steps up to and with the first that fails; all of them when nothing is found."""
    findings = []
    for step in _steps(endpoint):
        finding = step(endpoint)
        findings.append(finding)
        if not finding.ok:
            break
    return findings


def verdict(findings: list[Finding]) -> str:
    """One line: the step that failed, or that none did."""
    failed = [finding for finding in findings if not finding.ok]
    return str(failed[0]) if failed else "every step works now: the failure was a passing one, or of the request"


def _steps(endpoint: Endpoint) -> tuple[Callable[[Endpoint], Finding], ...]:
    if endpoint.proxy is None:
        return (_dns, _tcp, _tls, _http)
    return (_proxy_dns, _proxy_tcp, _proxy_tunnel, _tls, _http)


def _dns(endpoint: Endpoint) -> Finding:
    return _resolved("DNS", endpoint.address[0], "the server")


def _tcp(endpoint: Endpoint) -> Finding:
    return _connected("TCP", endpoint.address, "ask the network's owner to allow outbound connections to it")


def _proxy_dns(endpoint: Endpoint) -> Finding:
    return _resolved("proxy DNS", _proxy_address(endpoint)[0], "the proxy")


def _proxy_tcp(endpoint: Endpoint) -> Finding:
    return _connected("proxy TCP", _proxy_address(endpoint), "check proxy.url in client.toml")


def _proxy_tunnel(endpoint: Endpoint) -> Finding:
    host, port = endpoint.address
    try:
        with through(endpoint, SECONDS):
            return Finding("proxy", True, f"tunnel to {host}:{port} opened")
    except Refused as error:
        return Finding("proxy", False, f"the proxy answered {error.status} to CONNECT {host}:{port}", error.advice)
    except OSError as error:
        return Finding("proxy", False, f"no tunnel to {host}:{port}: {_reason(error)}", "check proxy.url and ca_file")


def _tls(endpoint: Endpoint) -> Finding:
    host, _ = endpoint.address
    try:
        with through(endpoint, SECONDS) as plain:
            # the site's certificate is not shown: the question here is who the other end is
            context = Endpoint(endpoint.url, endpoint.ca).context()
            with context.wrap_socket(plain, server_hostname=host) as secure:
                return Finding("TLS", True, f"{secure.version()}, certificate of the federation's CA")
    except ssl.SSLCertVerificationError as error:
        return _distrusted(endpoint, error)
    except (OSError, Refused) as error:
        return Finding("TLS", False, f"no handshake: {_reason(error)}", "something between cuts TLS 1.3 off")


def _http(endpoint: Endpoint) -> Finding:
    advice = "the TLS certificate of this site may be refused: look at `secureproto client status`"
    try:
        transport = HttpsTransport(endpoint)
        try:
            return Finding("HTTP", True, f"the server answers with status {transport.get(PROBE_PATH).status}")
        finally:
            transport.close()
    except (Unavailable, Misconfigured) as error:
        return Finding("HTTP", False, error.message, advice)


def _distrusted(endpoint: Endpoint, error: ssl.SSLCertVerificationError) -> Finding:
    """The peer's certificate is not what we want: say who issued it."""
    issuer = _issuer(endpoint)
    evidence = f"{error.verify_message}; presented by: {issuer}"
    if "expired" in error.verify_message or "not yet valid" in error.verify_message:
        return Finding("TLS", False, evidence, "check this host's clock; else the server's certificate has run out")
    if "match" in error.verify_message or "mismatch" in error.verify_message.lower():
        return Finding("TLS", False, evidence, "the invitation's address is not a name in the server's certificate")
    return Finding(
        "TLS", False, evidence, "if that is a company proxy that opens TLS, have this host exempted from interception"
    )


def _issuer(endpoint: Endpoint) -> str:
    """Issuer of the certificate that is presented, read without trusting it: evidence only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with through(endpoint, SECONDS) as plain, context.wrap_socket(plain) as secure:
            der = secure.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(der).issuer.rfc4514_string()[:120] if der else "nobody"
    except (OSError, ValueError, Refused) as error:
        return f"unknown ({_reason(error)})"


def _resolved(step: str, host: str, whose: str) -> Finding:
    try:
        return Finding(step, True, f"{host} is {', '.join(resolve(host))}")
    except OSError as error:
        return Finding(
            step, False, f"{host}: {_reason(error)}", f"check the name of {whose} and this host's resolver"
        )


def _connected(step: str, address: tuple[str, int], advice: str) -> Finding:
    host, port = address
    try:
        connect(address, SECONDS).close()
        return Finding(step, True, f"{host}:{port} accepts")
    except OSError as error:
        return Finding(step, False, f"{host}:{port}: {_reason(error)}", advice)


def _proxy_address(endpoint: Endpoint) -> tuple[str, int]:
    return endpoint.proxy.address if endpoint.proxy else endpoint.address


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer (time-out)"
    if isinstance(error, socket.gaierror):
        return "the name does not resolve"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
