"""Sockets for the diagnosis: straight to the server, or through the proxy's CONNECT (RFC 9110, 9.3.6)."""

import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager

from secureproto_client.transport.endpoint import Endpoint, Proxy

MAX_HEAD = 16 * 1024  # a proxy's answer to CONNECT has a few lines

ADVICE = {
    407: "the proxy wants a user and a password: set proxy.credentials in client.toml",
    403: "the proxy forbids this address: ask its owner to allow CONNECT to it",
    502: "the proxy cannot reach the server: ask its owner",
    503: "the proxy cannot reach the server: ask its owner",
    504: "the proxy cannot reach the server: ask its owner",
}


class Refused(Exception):
    """The proxy answered CONNECT with something else than 200."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy answered {status}")
        self.status = status
        self.advice = ADVICE.get(status, "ask the proxy's owner what this means")


def resolve(host: str) -> list[str]:
    """The addresses of a host. Raises OSError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return sorted({str(entry[4][0]) for entry in found})


def connect(address: tuple[str, int], seconds: float) -> socket.socket:
    """A TCP connection. Raises OSError."""
    return socket.create_connection(address, timeout=seconds)


@contextmanager
def through(endpoint: Endpoint, seconds: float) -> Iterator[socket.socket]:
    """A byte stream to the server's port, through the proxy if one is set. Raises OSError, Refused."""
    proxy = endpoint.proxy
    with connect(proxy.address if proxy else endpoint.address, seconds) as plain:
        if proxy is None:
            yield plain
            return
        context = proxy.context()
        stream = context.wrap_socket(plain, server_hostname=proxy.address[0]) if context else plain
        with stream:
            _open_tunnel(stream, endpoint.address, proxy)
            yield stream


def _open_tunnel(stream: socket.socket, address: tuple[str, int], proxy: Proxy) -> None:
    host, port = address
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    if proxy.user:
        credentials = b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {credentials}")
    stream.sendall("\r\n".join([*lines, "", ""]).encode())
    status = _status(_head(stream))
    if status // 100 != 2:
        raise Refused(status)


def _head(stream: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < MAX_HEAD:
        piece = stream.recv(1024)
        if not piece:
            break
        head += piece
    return head


def _status(head: bytes) -> int:
    parts = head.split(b"\r\n", 1)[0].split(b" ")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
