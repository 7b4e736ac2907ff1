"""The transport without a network: a server in the same process, for simulations and for running a site's code whole.

It keeps the seam's contract, so what runs over it runs over HTTPS too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from secureproto_client.transport.seam import CHUNK, Reply, Sink


@dataclass(frozen=True)
class Request:
    """What the server in this process sees. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Handler = Callable[[Request], Reply]


class MemoryTransport:
    """A Transport that calls `handler`; whatever Unavailable the handler raises passes through."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def get(self, path: str) -> Reply:
        return self._handler(Request("GET", path))

    def post(self, path: str, body: bytes, *, wait: float = 0.0) -> Reply:
        return self._handler(Request("POST", path, {}, body))

    def put(self, path: str, source: Path, *, offset: int) -> Reply:
        if source.stat().st_size < offset:
            raise ValueError("the offset is behind the end of the file")
        with source.open("rb") as file:
            file.seek(offset)
            return self._handler(Request("PUT", path, {"upload-offset": str(offset)}, file.read()))

    def fetch(self, path: str, sink: Sink, *, offset: int) -> Reply:
        headers = {"range": f"bytes={offset}-"} if offset else {}
        reply = self._handler(Request("GET", path, headers))
        if reply.status not in (200, 206):
            return reply
        body = reply.body[offset:] if reply.status == 200 else reply.body
        for start in range(0, len(body), CHUNK):
            sink(body[start : start + CHUNK])
        return Reply(reply.status)

    def close(self) -> None:
        """Nothing to give back."""
