"""What a request must look like before any handler sees it, and the refusal it gets otherwise. Pure.

Rules, in the order in which they are checked:
 1. request line and headers together, and their count, are bounded                       431
 2. HTTP/1.1 and no other                                                                 505
 3. the target is a plain path (no escapes, no absolute form) with an optional query      400
 4. exactly one Host, and it names this server                                            400, 421
 5. no Upgrade, no CONNECT                                                                400
 6. no Transfer-Encoding: a body's length is known beforehand                             411
 7. a method with a body has Content-Length                                               411
 8. no Content-Encoding: what is hashed is what is sent                                   415
 9. Expect is 100-continue or absent                                                      417
10. the body is not longer than the port ever takes                                       413

The parser (llhttp, strict) has by then refused, with 400, a Content-Length beside Transfer-Encoding or twice or
not a plain number, bare LF, folded headers, control characters, and white space before a colon.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import problem_type

PATH = re.compile(rb"/[A-Za-z0-9._~:@+=,/-]*(?:\?[!-~]*)?")  # no percent: a path has one spelling
PORT_SUFFIX = re.compile(r":[0-9]{1,5}$")
WITH_BODY = frozenset({b"POST", b"PUT", b"PATCH"})

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Refusal:
    """Why a connection was cut: HTTP status, a stable word (a problem URI and a metric label), one line of text."""

    status: int
    word: str
    detail: str

    def response(self) -> bytes:
        """The whole answer on the wire: a problem document, and the end of the connection."""
        problem = {
            "type": problem_type(self.word),
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        body = json.dumps(problem).encode()
        head = (
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n"
            f"content-type: application/problem+json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        return head.encode() + body


# told of each refusal, with the scope of the request when one had begun; must not raise
Observer = Callable[[Refusal, Mapping[str, Any] | None], None]


def ignore(_: Refusal, __: Mapping[str, Any] | None) -> None:
    """The observer of a port that counts nothing."""


@dataclass(frozen=True)
class Guard:
    """Bounds of one port. Times in seconds, rates in bytes a second."""

    hosts: frozenset[str]  # what Host may say, lower case, without port; an IPv6 address in brackets
    max_body: int = 0
    header_bytes: int = LIMITS.header_bytes
    header_count: int = LIMITS.header_count
    header_seconds: float = LIMITS.header_seconds
    body_rate: float = LIMITS.body_rate
    body_seconds: float = LIMITS.body_grace_seconds  # the rate is judged over so long a stretch
    stall_seconds: float = 60.0  # a peer that takes none of our answer for so long is gone
    linger_seconds: float = 5.0  # after a refusal, so that the peer reads it before its connection is reset
    observer: Observer = ignore


MALFORMED = Refusal(400, "malformed", "this is not an HTTP/1.1 request")
TOO_MANY_HEADERS = Refusal(431, "headers_too_large", "the request's headers are too many or too long")
HEADERS_TOO_SLOW = Refusal(408, "headers_too_slow", "the request's headers took too long")
BODY_TOO_SLOW = Refusal(408, "too_slow", "the body came slower than the minimum rate")


def check_head(guard: Guard, head: tuple[bytes, bytes, str], headers: Headers) -> Refusal | None:
    """Rules 2 to 10 for a request line (method, target, version) and headers with lower-case names."""
    method, target, version = head
    if version != "1.1":
        return Refusal(505, "http_version", "only HTTP/1.1 is spoken here")
    if PATH.fullmatch(target) is None:
        return Refusal(400, "path", "the request's target is not a plain path")
    names = [name for name, _ in headers]
    return _check_host(guard, headers) or _check_framing(method, names) or _check_values(guard, headers)


def content_length(headers: Headers) -> int:
    """The body's length; 0 when there is none. The parser has refused anything but one plain number."""
    return int(next((value for name, value in headers if name == b"content-length"), b"0"))


def _check_host(guard: Guard, headers: Headers) -> Refusal | None:
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1:
        return Refusal(400, "host", "a request has exactly one Host header")
    if PORT_SUFFIX.sub("", hosts[0].decode("latin-1").lower()) not in guard.hosts:
        return Refusal(421, "host", "this server does not go by the name in the Host header")
    return None


def _check_framing(method: bytes, names: Sequence[bytes]) -> Refusal | None:
    if method == b"CONNECT" or b"upgrade" in names:
        return Refusal(400, "upgrade", "the protocol cannot be changed here")
    if b"transfer-encoding" in names or (method in WITH_BODY and b"content-length" not in names):
        return Refusal(411, "length_required", "a body is sent with Content-Length, not in chunks")
    if b"content-encoding" in names:
        return Refusal(415, "content_encoding", "a body is sent as it is, without Content-Encoding")
    return None


def _check_values(guard: Guard, headers: Headers) -> Refusal | None:
    if any(name == b"expect" and value.lower() != b"100-continue" for name, value in headers):
        return Refusal(417, "expect", "only Expect: 100-continue is understood")
    if content_length(headers) > guard.max_body:
        return Refusal(413, "too_large", "the body is longer than anything this port takes")
    return None
