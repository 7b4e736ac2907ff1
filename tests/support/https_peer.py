"""A handler of the in-process transport behind real sockets: HTTPS with a certificate of its own CA, and a proxy."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from secureproto.clock import SystemClock, seconds
from secureproto.crypto.certificates import Authority, client_certificate, new_root_ca, server_certificate
from secureproto.crypto.keys import PublicKey
from secureproto_client.transport.endpoint import ClientCertificate, Endpoint, Proxy
from secureproto_client.transport.memory import Handler, Request
from support.site_peer import private

SECRET = b"secret"


@dataclass
class HttpsPeer:
    """A running server. `seen`: the subject of each client certificate that was shown."""

    directory: Path
    handler: Handler
    hosts: tuple[str, ...] = ("localhost",)
    ca_key: int = 21
    born: int = field(default_factory=lambda: seconds(SystemClock()))
    cut_after: int | None = None  # bytes of an answer's body after which the connection ends, once
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ca = new_root_ca("heart", private(self.ca_key), self.born)
        key = private(22)
        self.chain = self.directory / "server.pem"
        leaf = server_certificate(self.ca, PublicKey.of(key.public_key()), self.hosts, now=self.born)
        self.chain.write_bytes(leaf.public_bytes(Encoding.PEM))
        self.key = write_key(self.directory / "server.key", 22)

    @property
    def ca_der(self) -> bytes:
        return self.ca.certificate.public_bytes(Encoding.DER)

    def endpoint(self, *, certificate: bool = False, proxy: Proxy | None = None) -> Endpoint:
        """How a site reaches this server."""
        shown = self.certificate() if certificate else None
        return Endpoint(f"https://localhost:{self.port}", self.ca_der, shown, proxy)

    def certificate(self) -> ClientCertificate:
        """A client certificate of the server's CA."""
        return issue_client(self.directory, self.ca)

    @contextmanager
    def running(self) -> Iterator["HttpsPeer"]:
        """Serve inside the block."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key, SECRET)
        context.load_verify_locations(cadata=self.ca_der)
        context.verify_mode = ssl.CERT_OPTIONAL
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._requests())
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def _requests(self) -> type[BaseHTTPRequestHandler]:
        peer = self

        class Requests(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                shown = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
                if shown:
                    peer.seen.append(str(shown["subjectAltName"]))
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = peer.handler(Request(self.command, self.path, headers, body))
                self.send_response(reply.status)
                if reply.status != 204:
                    self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                cut, peer.cut_after = peer.cut_after, None
                self.wfile.write(reply.body[:cut])
                self.close_connection = cut is not None

            do_GET = do_POST = do_PUT = answer  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Requests


def write_key(path: Path, number: int) -> Path:
    """An encrypted private key file."""
    pem = private(number).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(SECRET))
    path.write_bytes(pem)
    path.chmod(0o600)
    return path


def issue_client(directory: Path, ca: Authority) -> ClientCertificate:
    """A client certificate for the site cleveland."""
    now = seconds(SystemClock())
    leaf = client_certificate(ca, PublicKey.of(private(23).public_key()), "heart", "cleveland", now=now)
    chain = directory / "client.pem"
    chain.write_bytes(leaf.public_bytes(Encoding.PEM))
    return ClientCertificate(chain, write_key(directory / "client.key", 23), SECRET)


@dataclass
class ConnectProxy:
    """An HTTP proxy that only does CONNECT. `login`: the Basic credentials it wants; `answer`: instead of 200."""

    login: str = ""
    answer: int = 200
    connected: list[str] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator["ConnectProxy"]:
        """Serve inside the block."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            listener.settimeout(0.05)
            self._open = True
            thread = threading.Thread(target=self._serve, args=(listener,))
            thread.start()
            try:
                yield self
            finally:
                self._open = False
                thread.join()

    def _serve(self, listener: socket.socket) -> None:
        threads = []
        while self._open:
            try:
                stream, _ = listener.accept()
            except TimeoutError:
                continue
            threads.append(threading.Thread(target=self._tunnel, args=(stream,)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _tunnel(self, stream: socket.socket) -> None:
        with stream:
            stream.settimeout(5)
            head = b""
            while b"\r\n\r\n" not in head:
                piece = stream.recv(4096)
                if not piece:  # somebody only tried whether the port accepts
                    return
                head += piece
            target = head.split(b" ")[1].decode()
            status = self.answer
            if self.login and f"Basic {self.login}".encode() not in head:
                status = 407
            stream.sendall(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode())
            if status != 200:
                return
            self.connected.append(target)
            host, _, port = target.rpartition(":")
            with socket.create_connection((host, int(port))) as other:
                pump = threading.Thread(target=_copy, args=(other, stream))
                pump.start()
                _copy(stream, other)
                pump.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    source.settimeout(5)
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one side has gone: the tunnel is over
        return
