"""Peers that connect and say nothing: bounded in number and time, and out of the way of everybody else."""

import errno
import logging
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from secureproto_server.http import accepting
from secureproto_server.http.accepting import room_for_connections
from secureproto_server.http.guard import Guard
from secureproto_server.http.listen import REFUSED_AT_ONCE, Port, bind
from support.listening import HOST, Raw, Seen, echo, listening, serving

GET = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"


def guard(seconds: float) -> Guard:
    return Guard(hosts=frozenset({"localhost"}), header_seconds=seconds)


@contextmanager
def silent(port: int, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that send nothing."""
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)) for _ in range(count)]


def test_a_handshake_that_does_not_come_is_not_waited_for_long() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # no certificate: nobody comes so far as to need it
    with listening(echo(Seen()), guard(0.3), tls=tls) as port, silent(port, 20) as peers:
        assert all(peer.recv(1) == b"" for peer in peers)


def test_who_speaks_no_tls_is_cut_and_its_place_is_free_again() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with listening(echo(Seen()), guard(5), tls=tls, max_connections=1) as port:
        for _ in range(3 * (1 + REFUSED_AT_ONCE)):
            with Raw(port) as raw:
                raw.send(GET)
                assert b"HTTP" not in raw.socket.recv(100)


def test_connections_over_the_bound_wait_until_others_end() -> None:
    with listening(echo(Seen()), guard(0.5), max_connections=2) as port:
        with silent(port, 2 + REFUSED_AT_ONCE), Raw(port) as late:
            late.send(GET)
            assert late.response()[0] in (200, 503)
            assert late.age > 0.4  # not before the first of the silent ones was closed
        with Raw(port) as raw:
            raw.send(GET)
            assert raw.response()[0] == 200


class Exhausted(socket.socket):
    """A listening socket in a process without free file descriptors, for the first times."""

    failures = 3

    def accept(self) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_running_out_of_descriptors_is_one_line_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "RETRY_SECONDS", 0.1)
    plain = bind("site", "127.0.0.1", 0)
    port = Port("site", Exhausted(fileno=plain.detach()), echo(Seen()), guard(5))
    with caplog.at_level(logging.ERROR), serving([port]) as addresses, Raw(addresses["site"][1]) as raw:
        raw.send(GET)
        assert raw.response()[0] == 200
    assert [record.getMessage() for record in caplog.records] == [
        "cannot accept a connection: Too many open files"
    ] * 3


@pytest.mark.parametrize(
    ("soft", "hard", "set_to", "room"),
    [
        (1024, 4096, 1456, 1200),
        (1024, 1024, 1024, 768),
        (4096, 4096, None, 1200),
        (64, 100, 100, 1),
        (1024, resource.RLIM_INFINITY, 1456, 1200),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, 1200),
    ],
)
def test_connections_leave_room_for_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, set_to: int | None, room: int
) -> None:
    changed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: changed.append(limits))
    assert room_for_connections(1200, reserved=256) == room
    assert changed == ([] if set_to is None else [(set_to, hard)])
