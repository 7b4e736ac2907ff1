"""A TLS connection on which a test writes whatever bytes it likes."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from secureproto.wire import base64url
from support.sim_site import SimSite


@contextmanager
def raw_connection(site: SimSite) -> Iterator[ssl.SSLSocket]:
    """A connection of `site` to the site port, with its client certificate."""
    context = ssl.create_default_context(cadata=ssl.DER_cert_to_PEM_cert(base64url.decode(site.root.ca)))
    context.load_cert_chain(site.directory / "tls.pem")
    with (
        socket.create_connection(("127.0.0.1", site.port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        yield tls


def exchange(site: SimSite, request: bytes) -> bytes:
    """Send bytes and read the first answer's head."""
    with raw_connection(site) as tls:
        tls.sendall(request)
        return read_head(tls)


def read_head(tls: ssl.SSLSocket) -> bytes:
    """An answer up to the end of its head, and what came with it."""
    answer = b""
    while b"\r\n\r\n" not in answer and (part := tls.recv(65536)):
        answer += part
    return answer


def put_head(path: str, length: int, *, host: str = "localhost") -> bytes:
    """The head of a body's PUT."""
    lines = [
        f"PUT {path} HTTP/1.1",
        f"Host: {host}",
        f"Content-Length: {length}",
        "Upload-Offset: 0",
        "Content-Type: application/octet-stream",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
