"""The rules for a request's head, without a socket."""

import json

import pytest

from secureproto_server.http.guard import BODY_TOO_SLOW, Guard, check_head, content_length

GUARD = Guard(hosts=frozenset({"localhost", "[::1]"}), max_body=100)
GOOD = [(b"host", b"localhost:8443")]


def refused(
    headers: list[tuple[bytes, bytes]], *, method: bytes = b"GET", target: bytes = b"/v1/a", version: str = "1.1"
) -> tuple[int, str] | None:
    refusal = check_head(GUARD, (method, target, version), headers)
    return None if refusal is None else (refusal.status, refusal.word)


@pytest.mark.parametrize("host", [b"localhost", b"LOCALHOST", b"localhost:1", b"[::1]", b"[::1]:8443"])
def test_our_names_pass(host: bytes) -> None:
    assert refused([(b"host", host)]) is None


@pytest.mark.parametrize(
    "host",
    [b"evil", b"localhost.evil", b"localhost:", b"localhost:123456", b"::1", b"", b"local\xc3\xa9", b"a@localhost"],
)
def test_other_names_are_misdirected(host: bytes) -> None:
    assert refused([(b"host", host)]) == (421, "host")


def test_host_is_there_once() -> None:
    assert refused([]) == (400, "host")
    assert refused(GOOD * 2) == (400, "host")


@pytest.mark.parametrize("target", [b"/", b"/v1/studies/heart/rounds/0", b"/a?b=%20&c", b"/a-b_c.d~e:f@g+h=i,j"])
def test_plain_paths_pass(target: bytes) -> None:
    assert refused(GOOD, target=target) is None


@pytest.mark.parametrize(
    "target", [b"*", b"http://localhost/", b"/%2e%2e/", b"/a\\b", b"/a b", b"/a#b", b"", b"/\xff", b"//a\n"]
)
def test_other_targets_are_refused(target: bytes) -> None:
    assert refused(GOOD, target=target) == (400, "path")


@pytest.mark.parametrize("version", ["1.0", "2.0", "0.9"])
def test_only_one_version(version: str) -> None:
    assert refused(GOOD, version=version) == (505, "http_version")


@pytest.mark.parametrize(
    ("method", "header", "expected"),
    [
        (b"CONNECT", (b"accept", b"a"), (400, "upgrade")),
        (b"GET", (b"upgrade", b"websocket"), (400, "upgrade")),
        (b"POST", (b"accept", b"a"), (411, "length_required")),
        (b"PUT", (b"accept", b"a"), (411, "length_required")),
        (b"GET", (b"transfer-encoding", b"chunked"), (411, "length_required")),
        (b"GET", (b"content-encoding", b"gzip"), (415, "content_encoding")),
        (b"GET", (b"content-encoding", b"identity"), (415, "content_encoding")),
        (b"POST", (b"content-length", b"101"), (413, "too_large")),
        (b"POST", (b"content-length", b"100"), None),
        (b"GET", (b"expect", b"something"), (417, "expect")),
        (b"GET", (b"expect", b"100-Continue"), None),
    ],
)
def test_framing(method: bytes, header: tuple[bytes, bytes], expected: tuple[int, str] | None) -> None:
    assert refused([*GOOD, header], method=method) == expected


def test_the_length_of_no_body_is_zero() -> None:
    assert content_length(GOOD) == 0
    assert content_length([*GOOD, (b"content-length", b"7")]) == 7


def test_a_refusal_is_a_problem_document() -> None:
    head, _, body = BODY_TOO_SLOW.response().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["type"] == "urn:secureproto:problem:too_slow"
