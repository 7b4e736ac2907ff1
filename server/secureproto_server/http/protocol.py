"""uvicorn's HTTP/1.1 protocol with what it lacks: time-outs for receiving, bounds, and the peer's certificate.

What happens to a request that breaks a rule of `guard`, or is too slow:
1. it is answered at once with a problem document and `Connection: close`, unless an answer had begun;
2. the application, if it runs, sees a disconnect;
3. whatever else the peer sends is read and dropped for `linger_seconds` (closing at once would reset the connection
   and could destroy the answer before it is read), then the connection is closed.

Invariants:
- An idle connection that sends nothing is closed after `header_seconds` (after uvicorn's keep-alive time when it
  was answered before), and from a request's first byte until its headers are complete passes at most that.
- One request at a time: a request sent before the answer to the one before it is not answered; the connection is
  closed after that answer, and the peer sends it again. So no two requests of a peer ever overlap.
- The scope has `extensions["secureproto.peer_certificate"] = {"der": bytes}` exactly when TLS verified one.

Written against uvicorn 0.54.0, which is pinned: it leans on its attributes `cycle`, `flow`, `headers`, `url`.
"""

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, cast

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from secureproto_server.http.guard import (
    BODY_TOO_SLOW,
    HEADERS_TOO_SLOW,
    MALFORMED,
    TOO_MANY_HEADERS,
    Guard,
    Refusal,
    check_head,
    content_length,
)
from secureproto_server.http.pace import BodyPace, TimedFlow

PEER_CERTIFICATE = "secureproto.peer_certificate"


class GuardedConfig(Config):
    """uvicorn's configuration of one port, with its guard."""

    guard: Guard


class Refused(Exception):
    """Stops the parser; the answer is in `refusal` (None: the connection is closing already)."""

    def __init__(self, refusal: Refusal | None) -> None:
        super().__init__()
        self.refusal = refusal


def peer_certificate(scope: Mapping[str, Any]) -> bytes | None:
    """The certificate (DER) the peer proved in TLS and our CA signed, or None."""
    extension = scope.get("extensions", {}).get(PEER_CERTIFICATE)
    return None if extension is None else cast(bytes, extension["der"])


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    flow: TimedFlow

    def __init__(
        self,
        config: GuardedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._guard = config.guard
        self.on_lost: Callable[[], None] | None = None  # called once, when the connection is over
        self._certificate: bytes | None = None
        self._in_head = False
        self._in_body = False
        self._head_bytes = 0  # as they came
        self._fields_bytes = 0  # as they were parsed
        self._pace: BodyPace | None = None
        self._deaf = False  # what comes now is dropped
        self._refused = Refused(MALFORMED)
        self._head_timer = Timer(self.loop, self._head_late)
        self._body_timer = Timer(self.loop, self._judge_body)
        self._stall_timer = Timer(self.loop, self._abort)
        self._linger_timer = Timer(self.loop, self._close)

    # connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.flow = TimedFlow(transport, self.loop.time)
        tls = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self._head_timer.start(self._guard.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._body_timer, self._stall_timer, self._linger_timer):
            timer.stop()
        super().connection_lost(exc)
        self.lost()

    @property
    def guard(self) -> Guard:
        """The bounds of this connection's port."""
        return self._guard

    def lost(self) -> None:
        """The connection is over, or never came to be. Saying it again changes nothing."""
        told, self.on_lost = self.on_lost, None
        if told is not None:
            told()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        before = self._head_bytes + len(data) if self._in_head else 0
        super().data_received(data)
        if self._deaf:
            return
        if self._in_head and before > self._guard.header_bytes:
            # counted raw too: the parser keeps an unfinished header to itself
            self._refuse(TOO_MANY_HEADERS)
        elif self._in_head:
            self._head_bytes = max(self._head_bytes, before)
        elif not self._in_body and not self._answering():
            # idle, and uvicorn has just stopped its keep-alive time: even empty lines must not keep it open
            self._head_timer.start(self._guard.header_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer.start(self._guard.stall_seconds)

    def resume_writing(self) -> None:
        self._stall_timer.stop()
        super().resume_writing()

    def shutdown(self) -> None:
        """The server stops: an idle connection ends now (TLS would wait for a peer that is not reading)."""
        if self._answering():
            super().shutdown()
        else:
            self.transport.abort()

    # parser

    def on_message_begin(self) -> None:
        if self._answering():
            raise self._stop(None)
        super().on_message_begin()
        if self._certificate is not None:
            scope = cast(MutableMapping[str, Any], self.scope)
            scope["extensions"] = {PEER_CERTIFICATE: {"der": self._certificate}}
        self._in_head = True
        self._head_bytes = 0
        self._fields_bytes = 0
        self._head_timer.stop()
        self._head_timer.start(self._guard.header_seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._fields_bytes += len(name) + len(value) + 4
        length = len(self.url) + self._fields_bytes
        if len(self.headers) > self._guard.header_count or length > self._guard.header_bytes:
            raise self._stop(TOO_MANY_HEADERS)

    def on_headers_complete(self) -> None:
        head = (self.parser.get_method(), self.url, self.parser.get_http_version())
        refusal = check_head(self._guard, head, self.headers)
        if refusal is not None:
            # uvicorn would fill these in; the observer wants to know what was asked for
            self.scope["method"] = head[0].decode("latin-1")
            self.scope["path"] = self.url.partition(b"?")[0].decode("latin-1")
            raise self._stop(refusal)
        super().on_headers_complete()
        self._in_head = False
        self._head_timer.stop()
        if content_length(self.headers) > 0:
            self._in_body = True
            self._pace = BodyPace(self._guard.body_rate, self._guard.body_seconds, self.flow.reading_seconds)
            self._body_timer.start(self._guard.body_seconds)

    def on_body(self, body: bytes) -> None:
        if self._pace is not None:
            self._pace.received(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._pace = None
        self._body_timer.stop()
        self._linger_timer.stop()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body:
            # answered early: the peer may finish its body a while, then it is cut
            self._linger_timer.start(self._guard.linger_seconds)

    def send_400_response(self, msg: str) -> None:
        """uvicorn's answer to anything its parser refused, and so to what our callbacks refused."""
        refused, self._refused = self._refused, Refused(MALFORMED)
        if refused.refusal is None:
            self._become_deaf()
        else:
            self._refuse(refused.refusal)

    # what time and rules do

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop(self, refusal: Refusal | None) -> Refused:
        self._refused = Refused(refusal)
        return self._refused

    def _head_late(self) -> None:
        if self._in_head:
            self._refuse(HEADERS_TOO_SLOW)
        else:
            self._close()  # nothing was asked, so there is nothing to answer

    def _judge_body(self) -> None:
        if self._pace is None:
            return
        if self.cycle.waiting_for_100_continue:
            self._pace.restart()  # the peer waits for us to ask for the body
        elif self._pace.too_slow():
            self._refuse(BODY_TOO_SLOW)
            return
        self._body_timer.start(max(self._pace.remaining(), self._guard.body_seconds / 8))

    def _refuse(self, refusal: Refusal) -> None:
        self._guard.observer(refusal, cast(Mapping[str, Any] | None, self.scope))
        # a request being answered can only be this very one: `on_message_begin` stops any that comes behind it
        answering = self._answering()
        silent = self._in_body and self.cycle.response_started
        self._become_deaf()
        if answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if silent or self.transport.is_closing():
            self._close()
        else:
            self.transport.write(refusal.response())
            if self.transport.can_write_eof():  # not over TLS; there `Connection: close` must do
                self.transport.write_eof()
            self.flow.resume_reading()
            self._linger_timer.start(self._guard.linger_seconds)

    def _become_deaf(self) -> None:
        self._deaf = True
        self._head_timer.stop()
        self._body_timer.stop()
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()


class Timer:
    """A call that is due once, if it is not stopped; starting it while it runs leaves it as it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Any) -> None:
        self._loop = loop
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    def start(self, seconds: float) -> None:
        """Be due in so many seconds."""
        if self._handle is None:
            self._handle = self._loop.call_later(seconds, self._fire)

    def stop(self) -> None:
        """Never be due."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._call()
