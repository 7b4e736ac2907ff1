"""The guarded protocol over real sockets: peers that are slow, large, malformed, impatient or silent."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from secureproto_server.http.guard import Guard, Refusal
from support.listening import HOST, Raw, Seen, answer, echo, listening

MIB = 1 << 20


def guard(seen: Seen, **bounds: float) -> Guard:
    known: dict[str, Any] = {"max_body": 64 * MIB, "linger_seconds": 1.0, **bounds}
    return Guard(hosts=frozenset({"localhost"}), observer=seen.observe, **known)


def post(body: bytes, *headers: bytes) -> bytes:
    return (
        b"POST /a HTTP/1.1\r\n"
        + HOST
        + b"".join(h + b"\r\n" for h in headers)
        + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


GET = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[int, Seen]]:
    """One server for many bad requests; its application must never be reached."""
    seen = Seen()
    with listening(echo(seen), guard(seen)) as port:
        yield port, seen


def received_until_the_end(raw: Raw) -> int:
    count = 0
    try:
        while piece := raw.socket.recv(MIB):
            count += len(piece)
    except ConnectionError:
        return count
    return count


def test_a_good_request_is_served_and_the_connection_kept() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen)) as port, Raw(port) as raw:
        for body in (b"abc", b"", bytes(3 * MIB)):
            raw.send(post(body))
            assert raw.response() == (200, str(len(body)).encode())
        raw.send(GET)
        assert raw.response()[0] == 200
    assert seen.bodies == [b"abc", b"", bytes(3 * MIB), b""]
    assert seen.refusals == []
    assert "secureproto.peer_certificate" not in seen.scopes[0].get("extensions", {})


def test_an_idle_connection_is_closed_without_a_word() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen, header_seconds=0.3)) as port, Raw(port) as raw:
        assert raw.closed()
        assert 0.2 < raw.age < 3


def test_slowly_dripped_headers_are_cut() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen, header_seconds=0.5)) as port, Raw(port) as raw:
        raw.drip(GET * 10, every=0.05)
        assert raw.response()[0] == 408
        assert 0.4 < raw.age < 3
    assert [refusal.word for refusal in seen.refusals] == ["headers_too_slow"]
    assert seen.scopes == []


def test_empty_lines_do_not_keep_a_connection_open() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen, header_seconds=0.5)) as port, Raw(port) as raw:
        raw.send(GET)
        assert raw.response()[0] == 200
        before = time.monotonic()
        raw.drip(b"\r\n" * 40, every=0.1, size=2)
        assert raw.closed()
        assert time.monotonic() - before < 5


def test_the_deadline_of_a_second_request_is_its_own() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen, header_seconds=0.6)) as port, Raw(port) as raw:
        raw.send(GET)
        assert raw.response()[0] == 200
        time.sleep(1)
        raw.drip(GET, every=0.3, size=len(GET) // 2 + 1)
        assert raw.response()[0] == 200


def test_a_body_slower_than_the_minimum_rate_is_cut() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen, body_rate=1000, body_seconds=0.4)) as port, Raw(port) as raw:
        raw.send(post(bytes(10_000))[:-10_000])
        raw.drip(bytes(10_000), every=0.02, size=2)
        status, body = raw.response()
        assert status == 408
        assert b"urn:secureproto:problem:too_slow" in body
        assert raw.age < 5
    assert [refusal.word for refusal in seen.refusals] == ["too_slow"]
    assert seen.disconnects == 1
    assert seen.bodies == []


def test_a_body_that_stalls_after_a_fast_beginning_is_cut() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen, body_rate=1000, body_seconds=0.3)) as port, Raw(port) as raw:
        raw.send(post(bytes(4 * MIB))[: 3 * MIB])
        assert raw.response()[0] == 408
        assert raw.age < 5


def test_a_body_as_fast_as_asked_passes() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen, body_rate=1000, body_seconds=0.3)) as port, Raw(port) as raw:
        raw.send(post(bytes(4000))[:-4000])
        raw.drip(bytes(4000), every=0.1, size=400)
        assert raw.response() == (200, b"4000")


def test_time_the_application_takes_is_not_the_peers() -> None:
    """The peer could send at once; the application takes a piece every 0.4 s, far under the rate asked for."""
    seen = Seen()
    bounds = guard(seen, body_rate=100 * MIB, body_seconds=0.2)
    with listening(echo(seen, pause=0.4), bounds) as port, Raw(port) as raw:
        raw.send(post(bytes(MIB)))
        status, body = raw.response()
        assert (status, body) == (200, str(MIB).encode())
        assert raw.age > 0.8
    assert seen.refusals == []


def test_waiting_to_be_asked_for_the_body_is_not_slow() -> None:
    seen = Seen()
    bounds = guard(seen, body_rate=1000, body_seconds=0.2)
    with listening(echo(seen, pause=0.8), bounds) as port, Raw(port) as raw:
        raw.send(post(bytes(10), b"Expect: 100-continue")[:-10])
        assert raw.socket.recv(64) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.send(bytes(10))
        assert raw.response() == (200, b"10")


def test_an_early_answer_ends_the_body_after_a_while() -> None:
    seen = Seen()

    async def refuses(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        await answer(send, b"no", 409)

    with listening(refuses, guard(seen, linger_seconds=0.3)) as port, Raw(port) as raw:
        raw.send(post(bytes(MIB))[: MIB // 2])
        assert raw.response() == (409, b"no")
        assert raw.closed()
        assert raw.age < 5


def test_after_an_early_answer_a_finished_body_leaves_the_connection_usable_but_not_forever() -> None:
    seen = Seen()

    async def refuses(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        await answer(send, b"no", 409)

    with listening(refuses, guard(seen, header_seconds=0.5)) as port, Raw(port) as raw:
        raw.send(post(bytes(MIB))[: MIB // 2])
        assert raw.response() == (409, b"no")
        raw.send(bytes(MIB + len(post(bytes(MIB))) - MIB - MIB // 2))
        raw.send(GET)
        assert raw.response() == (409, b"no")
        raw.send(b"\r\n")
        assert raw.closed()
        assert raw.age < 5


@pytest.mark.parametrize(
    ("name", "request_", "status"),
    [
        ("length and chunks", post(b"abc", b"Transfer-Encoding: chunked"), 400),
        (
            "chunks and length",
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            400,
        ),
        ("chunks", b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 411),
        ("no length", b"POST / HTTP/1.1\r\n" + HOST + b"\r\n", 411),
        ("two lengths", post(b"abc", b"Content-Length: 3"), 400),
        ("signed length", b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +3\r\n\r\nabc", 400),
        ("endless length", b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 400),
        ("too long", b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % (65 * MIB), 413),
        ("bare LF", GET.replace(b"\r\n", b"\n"), 400),
        ("bare LF in headers", b"GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400),
        ("folded header", b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400),
        ("space before colon", b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
        ("NUL in a header", b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n", 400),
        ("no Host", b"GET / HTTP/1.1\r\n\r\n", 400),
        ("two Hosts", b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        ("another Host", b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n", 421),
        ("absolute form", b"GET http://localhost/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        ("escaped path", b"GET /%2e%2e HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        ("compressed", post(b"abc", b"Content-Encoding: gzip"), 415),
        ("upgrade", post(b"abc", b"Connection: Upgrade", b"Upgrade: websocket"), 400),
        ("tunnel", b"CONNECT localhost:1 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        ("HTTP/1.0", b"GET / HTTP/1.0\r\n" + HOST + b"\r\n", 505),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        ("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),
        (
            "1,000 headers",
            b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"X-%d: y\r\n" % i for i in range(1000)) + b"\r\n",
            431,
        ),
        ("a long header", b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 17_000 + b"\r\n\r\n", 431),
        ("a long target", b"GET /" + b"y" * 17_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
        ("an endless header", b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * MIB, 431),
        ("an endless target", b"GET /" + b"y" * MIB, 431),
    ],
)
def test_a_bad_request_is_answered_and_cut(shared: tuple[int, Seen], name: str, request_: bytes, status: int) -> None:
    port, seen = shared
    before = len(seen.refusals)
    with Raw(port) as raw:
        raw.drip(request_, every=0, size=30_000)
        assert raw.response()[0] == status
        assert raw.closed()
    assert [refusal.status for refusal in seen.refusals[before:]] == [status]
    assert seen.scopes == []


def test_the_observer_learns_what_was_asked_for() -> None:
    asked: list[tuple[str, str, str]] = []

    def observe(refusal: Refusal, scope: Mapping[str, Any] | None) -> None:
        assert scope is not None
        asked.append((refusal.word, scope["method"], scope["path"]))

    bounds = Guard(hosts=frozenset({"localhost"}), max_body=2, observer=observe)
    with listening(echo(Seen()), bounds) as port, Raw(port) as raw:
        raw.send(post(b"abc").replace(b"/a", b"/b?c=d", 1))
        assert raw.response()[0] == 413
    assert asked == [("too_large", "POST", "/b")]


def test_a_bad_request_behind_a_good_one_is_refused_all_the_same() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen)) as port, Raw(port) as raw:
        raw.send(GET)
        assert raw.response()[0] == 200
        raw.send(b"GET / HTTP/1.1\r\n\r\n")
        assert raw.response()[0] == 400
        assert raw.closed()


@pytest.mark.parametrize("behind", [GET, GET[:10], b"\0garbage"])
def test_what_comes_before_the_answer_is_not_answered(behind: bytes) -> None:
    """Pipelined requests never overlap: the first is answered whole, then the connection ends."""
    seen = Seen()
    with listening(echo(seen, pause=0.2), guard(seen)) as port, Raw(port) as raw:
        raw.send(post(b"abc") + behind)
        assert raw.response() == (200, b"3")
        assert raw.closed()
    assert len(seen.scopes) == 1


def test_a_peer_that_does_not_read_its_answer_is_dropped() -> None:
    seen = Seen()
    ended = list[bool]()

    async def endless(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % (64 * MIB))]}
        )
        for number in range(64):
            await send({"type": "http.response.body", "body": bytes(MIB), "more_body": number < 63})
        ended.append(True)

    with listening(endless, guard(seen, stall_seconds=0.3)) as port, Raw(port) as raw:
        raw.send(GET)
        time.sleep(1)
        assert received_until_the_end(raw) < 64 * MIB
    assert ended == [True]


def test_an_application_that_answered_partly_is_not_spoken_over() -> None:
    """Too slow a body, but the answer has begun: the connection is closed in the middle of it, no 408 inside."""
    seen = Seen()

    async def begins(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        seen.disconnects += 1

    with listening(begins, guard(seen, body_rate=1000, body_seconds=0.3)) as port, Raw(port) as raw:
        raw.send(post(bytes(1000))[:-900])
        received = b""
        while piece := raw.socket.recv(1000):
            received += piece
    assert received.endswith(b"\r\n\r\nab")
    assert seen.disconnects == 1


def test_too_many_connections_are_told_to_come_back() -> None:
    seen = Seen()
    with listening(echo(seen), guard(seen), max_connections=2) as port, Raw(port) as first, Raw(port) as second:
        first.send(GET)
        second.send(GET)
        assert 503 in {first.response()[0], second.response()[0]}


def test_a_handler_that_fails_is_a_500_and_the_next_request_is_served() -> None:
    seen = Seen()
    failed = list[bool]()
    good = echo(seen)

    async def fails_once(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if not failed:
            failed.append(True)
            raise KeyError
        await good(scope, receive, send)

    with listening(fails_once, guard(seen)) as port:
        for status in (500, 200):
            with Raw(port) as raw:
                raw.send(GET)
                assert raw.response()[0] == status


def test_the_clocks_of_the_loop_are_independent_of_each_other() -> None:
    """Two connections: a slow one is cut, a good one beside it is not."""
    seen = Seen()
    bounds = guard(seen, body_rate=1000, body_seconds=0.4)
    with listening(echo(seen), bounds) as port, Raw(port) as slow, Raw(port) as good:
        slow.send(post(bytes(1000))[:-900])
        good.send(post(bytes(2000)))
        assert good.response() == (200, b"2000")
        assert slow.response()[0] == 408


def test_stopping_lets_a_request_under_way_finish() -> None:
    seen = Seen()
    inside = list[asyncio.AbstractEventLoop]()

    async def slow(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        inside.append(asyncio.get_running_loop())
        await asyncio.sleep(0.6)
        await answer(send, b"done")

    with listening(slow, guard(seen)) as port:
        raw = Raw(port)
        raw.send(GET)
        while not inside:
            time.sleep(0.01)
    with raw:
        assert raw.response() == (200, b"done")
        assert raw.closed()
