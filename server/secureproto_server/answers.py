"""Answers on the wire: bodies, problems, and reading a request's body within its bound. Raw ASGI, no framework.

Invariants: an error is a problem document whose words are ours, never a trace and never a value of what was sent;
a body is read only as far as its bound; work that blocks runs in a thread.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from starlette.routing import Route

from secureproto.clock import Clock
from secureproto.errors import NotFound, Rejected, SecureProtoError
from secureproto.wire.problems import problem_of
from secureproto.wire.reasons import Reason
from secureproto_server.metrics import ServerMetrics
from secureproto_server.routes import paths
from secureproto_server.services import Services

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handler = Callable[["Call"], Awaitable[None]]

OCTETS = "application/octet-stream"
JSON = "application/json"
PROBLEM = "application/problem+json"
LOG = logging.getLogger("secureproto.server.http")


class Gone(Exception):
    """The connection ended before the request did."""


class Call:
    """One request: its path, headers and body, and how to answer it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self._send = send
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.code = 0  # of the answer, once it has begun; 0 stands for a connection that ended before

    @property
    def parameters(self) -> Mapping[str, str]:
        """What the route's template found in the path."""
        return dict(self.scope.get("path_params", {}))

    def header(self, name: str) -> str:
        """A header's value, or empty."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self.scope["headers"] if key == wanted), "")

    async def chunk(self) -> tuple[bytes, bool]:
        """The next piece of the body, and whether more follows. Raises Gone."""
        event = await self.receive()
        if event["type"] != "http.request":
            raise Gone
        return event.get("body", b""), event.get("more_body", False)

    async def body(self, most: int) -> bytes:
        """The whole body.

        Raises:
            Rejected: TOO_LARGE, before it is read. Gone.
        """
        if int(self.header("content-length") or 0) > most:
            raise Rejected(Reason.TOO_LARGE, f"the body is over {most} bytes")
        parts: list[bytes] = []
        more = True
        while more:
            part, more = await self.chunk()
            parts.append(part)
        return b"".join(parts)

    async def answer(
        self, code: int, body: bytes = b"", *, kind: str = OCTETS, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer."""
        await self.begin(code, len(body), kind=kind, headers=headers)
        await self.part(body, more=False)

    async def begin(self, code: int, length: int, *, kind: str, headers: Mapping[str, str] | None = None) -> None:
        """Send the answer's head; `part` sends its body."""
        self.code = code
        pairs = {"content-type": kind, "content-length": str(length), "cache-control": "no-store", **(headers or {})}
        encoded = [(name.encode(), value.encode()) for name, value in pairs.items()]
        await self._send({"type": "http.response.start", "status": code, "headers": encoded})

    async def part(self, body: bytes, *, more: bool) -> None:
        """Send a piece of the answer's body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


async def answer_problem(call: Call, error: SecureProtoError) -> None:
    """Answer with an error's problem document."""
    document = problem_of(error)
    if document.status >= 500:
        LOG.error("a %s request failed: %s", call.method, error.message)
    await call.answer(document.status, document.canonical(), kind=PROBLEM)


class Endpoint:
    """An ASGI application that runs a handler, measures it, and turns its errors into problem documents."""

    def __init__(self, handler: Handler, *, template: str, metrics: ServerMetrics, clock: Clock) -> None:
        self._handler, self._template = handler, template
        self._metrics, self._clock = metrics, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call, begun = Call(scope, receive, send), self._clock.monotonic()
        try:
            await self._handle(call)
        finally:
            seconds = self._clock.monotonic() - begun
            self._metrics.request_answered(self._template, call.method, call.code, seconds=seconds)

    async def _handle(self, call: Call) -> None:
        try:
            await self._handler(call)
        except SecureProtoError as error:
            if not call.code:
                await answer_problem(call, error)
        except Gone:
            return
        except Exception:
            LOG.exception("a fault of this program in %s %s", call.method, self._template)
            if not call.code:
                await answer_problem(call, SecureProtoError("a fault of the server", hint="its log has more"))


def route(path: str, handler: Handler, method: str, services: Services) -> Route:
    """A route whose requests are measured under its template."""
    paths.register()
    template = paths.plain(path)
    endpoint = Endpoint(handler, template=template, metrics=services.metrics, clock=services.clock)
    return Route(path, endpoint, methods=[method])


async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer to a path that no route has."""
    await answer_problem(Call(scope, receive, send), NotFound("there is nothing at this path"))
