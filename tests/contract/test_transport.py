"""What every Transport owes, in process and over HTTPS: the same class of tests for both."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from secureproto.errors import Unavailable
from secureproto_client.transport.https import HttpsTransport
from secureproto_client.transport.memory import MemoryTransport, Request
from secureproto_client.transport.seam import CHUNK, MAX_REPLY, Reply, Transport
from support.https_peer import HttpsPeer

LONG = bytes(range(256)) * 10_000  # over two chunks


class Echo:
    """A server that says what it was asked; `/long` is a long body that knows ranges, `/whole` one that does not."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.asked.append(request)
        if request.path == "/long":
            offset = int(request.headers.get("range", "bytes=0-")[6:-1])
            return Reply(206 if offset else 200, LONG[offset:])
        if request.path == "/whole":
            return Reply(200, LONG)
        if request.path == "/empty":
            return Reply(204)
        if request.path == "/refused":
            return Reply(409, b"no")
        return Reply(200, request.method.encode() + b" " + request.body)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture(params=["memory", "https"])
def transport(request: pytest.FixtureRequest, echo: Echo, tmp_path: Path) -> Iterator[Transport]:
    with ExitStack() as stack:
        made: Transport
        if request.param == "memory":
            made = MemoryTransport(echo)
        else:
            made = HttpsTransport(stack.enter_context(HttpsPeer(tmp_path, echo).running()).endpoint())
        stack.callback(made.close)
        yield made


def test_get_and_post_give_status_and_body(transport: Transport) -> None:
    assert transport.get("/a") == Reply(200, b"GET ")
    assert transport.post("/a", b"body", wait=1) == Reply(200, b"POST body")
    assert transport.post("/empty", b"") == Reply(204)
    assert transport.get("/refused") == Reply(409, b"no")


@pytest.mark.parametrize("offset", [0, 5, CHUNK + 1, len(LONG)])
def test_put_sends_the_file_from_the_offset(transport: Transport, echo: Echo, tmp_path: Path, offset: int) -> None:
    source = tmp_path / "body"
    source.write_bytes(LONG)
    reply = transport.put("/up", source, offset=offset)
    assert reply == Reply(200, b"PUT " + LONG[offset:])
    assert echo.asked[-1].headers["upload-offset"] == str(offset)


def test_an_offset_behind_the_file_is_our_own_mistake(transport: Transport, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"abc")
    with pytest.raises(ValueError, match="offset"):
        transport.put("/up", tmp_path / "body", offset=4)


@pytest.mark.parametrize("path", ["/long", "/whole"])
@pytest.mark.parametrize("offset", [0, 7, CHUNK + 1])
def test_fetch_streams_from_the_offset(transport: Transport, path: str, offset: int) -> None:
    got: list[bytes] = []
    reply = transport.fetch(path, got.append, offset=offset)
    assert reply.status in (200, 206)
    assert b"".join(got) == LONG[offset:]
    assert reply.body == b""


def test_a_refused_fetch_gives_the_reply_and_feeds_nothing(transport: Transport) -> None:
    got: list[bytes] = []
    assert transport.fetch("/refused", got.append, offset=0) == Reply(409, b"no")
    assert got == []


def test_no_server_is_unavailable(tmp_path: Path, echo: Echo) -> None:
    peer = HttpsPeer(tmp_path, echo)
    with peer.running():
        pass
    transport = HttpsTransport(peer.endpoint())
    with pytest.raises(Unavailable, match="no answer from the server"):
        transport.get("/a")
    transport.close()


def https(tmp_path: Path, handler: Callable[[Request], Reply], stack: ExitStack) -> tuple[HttpsPeer, HttpsTransport]:
    peer = stack.enter_context(HttpsPeer(tmp_path, handler).running())
    transport = HttpsTransport(peer.endpoint(certificate=True))
    stack.callback(transport.close)
    return peer, transport


def test_the_site_shows_its_certificate(tmp_path: Path, echo: Echo) -> None:
    with ExitStack() as stack:
        peer, transport = https(tmp_path, echo, stack)
        transport.get("/a")
        assert "spiffe://heart/site/cleveland" in peer.seen[0]


def test_an_answer_that_is_cut_is_unavailable_and_its_part_usable(tmp_path: Path, echo: Echo) -> None:
    with ExitStack() as stack:
        peer, transport = https(tmp_path, echo, stack)
        peer.cut_after = CHUNK + 10
        got: list[bytes] = []
        with pytest.raises(Unavailable):
            transport.fetch("/long", got.append, offset=0)
        part = b"".join(got)
        assert LONG.startswith(part)
        transport.fetch("/long", got.append, offset=len(part))
        assert b"".join(got) == LONG


def test_an_endless_answer_is_cut_off(tmp_path: Path) -> None:
    with ExitStack() as stack:
        _, transport = https(tmp_path, lambda _: Reply(200, bytes(MAX_REPLY + 1)), stack)
        with pytest.raises(Unavailable, match="not our server"):
            transport.get("/a")


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        _, transport = https(tmp_path, lambda _: Reply(302, b""), stack)
        assert transport.get("/a").status == 302
