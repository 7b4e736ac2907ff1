"""The transport seam: everything a site needs of a network, in five methods.

What an implementation owes (tests/contract runs these): a reply is the server's, whole, whatever its status; when
no reply came, `Unavailable` is raised and the server may or may not have acted; the client never listens; the body
of `put` is read from its file as it is sent, and of `fetch` handed on as it comes, so memory does not grow with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from secureproto.wire.limits import LIMITS, MIB

# The longest reply that is not streamed: a study's descriptor, with base64 around it.
MAX_REPLY = 2 * LIMITS.descriptor
CHUNK = MIB
Sink = Callable[[bytes], None]


@dataclass(frozen=True)
class Reply:
    """A server's answer: HTTP status and whole body (empty when it went to a sink)."""

    status: int
    body: bytes = b""


class Transport(Protocol):
    """A way to the server's site port. Every method raises Unavailable when no whole reply came."""

    def get(self, path: str) -> Reply:
        """GET a short document (up to MAX_REPLY)."""
        ...

    def post(self, path: str, body: bytes, *, wait: float = 0.0) -> Reply:
        """POST a short body; the server may take `wait` seconds longer than usual to answer."""
        ...

    def put(self, path: str, source: Path, *, offset: int) -> Reply:
        """PUT the file `source` from byte `offset` on, saying the offset in `Upload-Offset`."""
        ...

    def fetch(self, path: str, sink: Sink, *, offset: int) -> Reply:
        """GET a long body from byte `offset` on; its bytes go to `sink` when the status is 200 or 206.

        A 200 answer to `offset` > 0 is the whole body again; then the first `offset` bytes are passed over.
        """
        ...

    def close(self) -> None:
        """Give the connections back. The transport is not used afterwards."""
        ...
