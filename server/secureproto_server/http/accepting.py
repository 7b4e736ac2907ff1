"""Accepting connections within a bound: those that are still shaking hands count, and they do it in time.

Why not the event loop's own server: it accepts whatever comes, gives a silent peer a minute for its handshake, and
when file descriptors run out it logs hundreds of tracebacks a second (CPython up to 3.12). A stranger who opens
connections and says nothing would so take the descriptors that the server's files need, and fill its log.

Invariants: at most `most` connections are open; the rest wait in the kernel's queue, and cost us nothing; a handshake
has an end; running out of descriptors is one line a second.
"""

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable

from secureproto_server.http.protocol import GuardedProtocol

AT_ONCE = 64  # accepted in one turn of the event loop
RETRY_SECONDS = 1.0  # after an error that is not one connection's
LOG = logging.getLogger("secureproto.server.http")


class Acceptor:
    """Accepts on one bound socket. Has the part of `asyncio.Server` that uvicorn uses to end."""

    def __init__(
        self, bound: socket.socket, protocol: Callable[[], GuardedProtocol], *, tls: ssl.SSLContext | None, most: int
    ) -> None:
        self._socket, self._protocol, self._tls, self._most = bound, protocol, tls, most
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[None]] = set()
        self._open = 0
        self._closed = self._reading = False
        bound.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more; who is still shaking hands is cut. The socket is the caller's."""
        self._pause()
        self._closed = True
        for task in self._beginning:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing is left of what `close` cut."""
        await asyncio.gather(*self._beginning, return_exceptions=True)

    def _resume(self) -> None:
        if not self._reading and not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._accept)
            self._reading = True

    def _pause(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._socket.fileno())
            self._reading = False

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if self._open >= self._most:
                self._pause()  # until one ends
                return
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                LOG.error("cannot accept a connection: %s", error.strerror)
                self._pause()
                self._loop.call_later(RETRY_SECONDS, self._resume)
                return
            self._open += 1
            task = self._loop.create_task(self._begin(connection))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        protocol = self._protocol()
        protocol.on_lost = self._gone
        seconds = protocol.guard.header_seconds if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except OSError:  # no TLS, no certificate of ours, too slow, or gone: nothing was asked of us yet
            protocol.lost()
        except asyncio.CancelledError:
            protocol.lost()
            raise

    def _gone(self) -> None:
        self._open -= 1
        self._resume()


def room_for_connections(wanted: int, *, reserved: int) -> int:
    """How many of the wanted connections this process may hold beside `reserved` other files.

    Raises the process's soft limit of open files as far as that needs and the hard limit allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + reserved
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft - reserved))
