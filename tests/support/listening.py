"""A real server on loopback in a thread of the test, and a raw client that can misbehave."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from secureproto_server.http.guard import Guard, Refusal
from secureproto_server.http.listen import App, Port, bind, serve

HOST = b"Host: localhost\r\n"


@dataclass
class Seen:
    """What an application and an observer saw."""

    scopes: list[Mapping[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    disconnects: int = 0
    refusals: list[Refusal] = field(default_factory=list)

    def observe(self, refusal: Refusal, scope: Mapping[str, Any] | None) -> None:
        self.refusals.append(refusal)


def echo(seen: Seen, *, pause: float = 0.0) -> App:
    """An application that reads the body, waiting `pause` seconds before each piece, and answers its length."""

    async def app(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        seen.scopes.append(scope)
        body, more = b"", True
        while more:
            await asyncio.sleep(pause)
            message = await receive()
            if message["type"] == "http.disconnect":
                seen.disconnects += 1
                return
            body += message["body"]
            more = message["more_body"]
        seen.bodies.append(body)
        await answer(send, str(len(body)).encode())

    return app


async def answer(send: Any, body: bytes, status: int = 200) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def listening(
    app: App, guard: Guard, *, tls: ssl.SSLContext | None = None, max_connections: int = 1024
) -> Iterator[int]:
    """Serve `app` until the block ends; gives the port."""
    port = Port("site", bind("site", "127.0.0.1", 0), app, guard, tls, max_connections)
    with serving([port]) as addresses:
        yield addresses["site"][1]


@contextmanager
def serving(ports: Sequence[Port]) -> Iterator[Mapping[str, tuple[str, int]]]:
    """Serve several ports until the block ends; gives their real addresses."""
    ready, found, stop = threading.Event(), dict[str, tuple[str, int]](), list[Callable[[], object]]()

    async def run() -> None:
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(stopping.set))

        def started(addresses: Mapping[str, tuple[str, int]]) -> None:
            found.update(addresses)
            ready.set()

        await serve(ports, stopping=stopping, started=started, grace_seconds=2)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert ready.wait(10)
        yield found
    finally:
        stop[0]()
        thread.join(20)
        assert not thread.is_alive()


class Raw:
    """A connection that sends exactly the bytes it is told to."""

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self.opened = time.monotonic()

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def drip(self, data: bytes, *, every: float, size: int = 1) -> None:
        """Send slowly, until the server has had enough of it."""
        for start in range(0, len(data), size):
            try:
                self.socket.sendall(data[start : start + size])
            except OSError:
                return
            time.sleep(every)

    def response(self) -> tuple[int, bytes]:
        """One answer: its status and body."""
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.socket.recv(1)
            if not piece:
                return 0, head
            head += piece
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        body = b""
        while len(body) < length:
            body += self.socket.recv(length - len(body))
        return int(head.split()[1]), body

    def closed(self) -> bool:
        """Wait for the server to close; False when it has something to say instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    @property
    def age(self) -> float:
        return time.monotonic() - self.opened
