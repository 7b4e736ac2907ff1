"""Several ports in one event loop, each a uvicorn server with the guarded protocol; one orderly end for all.

1. `bind` takes a port, so that a port in use is one line before anything else starts.
2. `serve` runs until `stopping` is set; `stop_on_signals` sets it on SIGTERM and SIGINT.
3. Then no connection is accepted, idle ones are closed, requests under way have `grace_seconds` to end.

A handler that waits long (long-poll) should watch the same `stopping` and answer early.
"""

import asyncio
import errno
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import uvicorn

from secureproto.errors import Misconfigured
from secureproto_server.http.accepting import Acceptor
from secureproto_server.http.guard import Guard
from secureproto_server.http.protocol import GuardedConfig, GuardedProtocol

KEEP_ALIVE_SECONDS = 60  # longer than the pause between two polls of a site: it need not shake hands again
BACKLOG = 256  # connections the kernel holds until we accept them
REFUSED_AT_ONCE = 16  # connections beyond the bound that are told so, with 503; others wait in the kernel's queue
LAST_SECONDS = 0.05  # for aborted connections to be forgotten by the loop

App = Callable[..., Any]  # an ASGI 3 application


@dataclass(frozen=True)
class Port:
    """One listening port, bound. `name` is the surface: site, admin, metrics or health."""

    name: str
    socket: socket.socket
    app: App
    guard: Guard
    tls: ssl.SSLContext | None = None
    max_connections: int = 1024  # beyond, new requests get 503, then connections wait: file descriptors are finite


def bind(name: str, host: str, port: int) -> socket.socket:
    """A listening socket on an address of this host. Port 0: any free one (`address_of` tells which).

    Raises:
        Misconfigured: the port is in use, may not be taken, or the host is not ours.
    """
    where = f"{name} port {host}:{port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Misconfigured(f"{where}: {error.strerror}", hint="use an address of this host") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise Misconfigured(f"{where} is in use", hint="stop the other program or set another port") from None
        raise Misconfigured(f"{where}: {error.strerror}", hint="use a port above 1023 of this host") from None
    return bound


def address_of(bound: socket.socket) -> tuple[str, int]:
    """The address and the real port of a socket."""
    host, port = bound.getsockname()[:2]
    return str(host), int(port)


async def serve(
    ports: Sequence[Port],
    *,
    stopping: asyncio.Event,
    started: Callable[[Mapping[str, tuple[str, int]]], None],
    grace_seconds: int = 10,
) -> None:
    """Serve every port until `stopping` is set, then end in order. Owns the sockets and closes them.

    `started` is called once with the real address of each port by name, when all accept connections.
    """
    servers = [_Server(_config(port, grace_seconds)) for port in ports]
    running = [asyncio.create_task(server.serve([port.socket])) for server, port in zip(servers, ports, strict=True)]
    ready = asyncio.create_task(_all_ready(servers))
    stop = asyncio.create_task(_stopped(stopping))
    try:
        await asyncio.wait([ready, *running], return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            started({port.name: address_of(port.socket) for port in ports})
        # a server that ends by itself has failed: the others must not go on without it
        await asyncio.wait([stop, *running], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        ready.cancel()
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*running)
        await _abort_leftovers(servers)


@contextmanager
def stop_on_signals(stopping: asyncio.Event) -> Iterator[None]:
    """Set `stopping` on SIGTERM or SIGINT. Use it within the running loop of the main thread."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stopping.set)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class _Server(uvicorn.Server):
    """uvicorn's server of one port, leaving signals to `stop_on_signals`."""

    def __init__(self, config: GuardedConfig) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config = self.config
        assert isinstance(config, GuardedConfig)  # noqa: S101 - `_config` makes no other; narrows the type

        def protocol() -> GuardedProtocol:
            return GuardedProtocol(config, self.server_state, {})

        most = (config.limit_concurrency or 0) + REFUSED_AT_ONCE
        acceptors = [Acceptor(bound, protocol, tls=config.ssl, most=most) for bound in sockets or []]
        self.servers = cast(list[asyncio.base_events.Server], acceptors)  # an Acceptor has what uvicorn uses of it
        self.started = True
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _all_ready(servers: Sequence[_Server]) -> None:
    for server in servers:
        await server.ready.wait()


async def _stopped(stopping: asyncio.Event) -> None:
    await stopping.wait()


def _config(port: Port, grace_seconds: int) -> GuardedConfig:
    config = GuardedConfig(
        port.app,
        http=GuardedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,  # no logging set-up here: it belongs to whoever runs the process
        access_log=False,
        proxy_headers=False,  # nobody else's word on who the peer is
        server_header=False,
        limit_concurrency=port.max_connections,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=grace_seconds,
        ssl_context_factory=None if port.tls is None else lambda _, __: _present(port.tls),
    )
    config.guard = port.guard
    return config


def _present(context: ssl.SSLContext | None) -> ssl.SSLContext:
    if context is None:
        raise ValueError("a port without TLS has no context")
    return context


async def _abort_leftovers(servers: Sequence[_Server]) -> None:
    left = [connection for server in servers for connection in server.server_state.connections]
    for connection in left:
        connection.transport.abort()
    if left:
        await asyncio.sleep(LAST_SECONDS)
