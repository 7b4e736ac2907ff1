"""The transport over HTTPS: httpx, outbound only, through a proxy if one is set.

Invariants as in `endpoint`; every wait has an end; a reply is read up to a limit; redirects are not followed, so a
captive portal is an error and never a server.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from secureproto.errors import Misconfigured, Unavailable
from secureproto_client.transport.endpoint import Endpoint
from secureproto_client.transport.seam import CHUNK, MAX_REPLY, Reply, Sink

CONNECT_SECONDS = 10.0  # a hospital's proxy answers in one; more is a dead route
ANSWER_SECONDS = 60.0  # between two pieces of an answer; the server's slowest step is one fsync of a large body
MEDIA_TYPE = "application/octet-stream"


class HttpsTransport:
    """A Transport to one endpoint. Made anew when the certificate is renewed."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises Misconfigured when certificate, key or proxy settings cannot be used."""
        self._client = httpx.Client(
            base_url=endpoint.url,
            verify=endpoint.context(),
            proxy=_proxy(endpoint),
            trust_env=False,
            follow_redirects=False,
            timeout=_timeout(0.0),
            headers={"user-agent": "secureproto-client", "accept-encoding": "identity"},
        )

    def get(self, path: str) -> Reply:
        with self._exchange("GET", path, {}) as response:
            return _read(response)

    def post(self, path: str, body: bytes, *, wait: float = 0.0) -> Reply:
        headers = {"content-type": MEDIA_TYPE}
        with self._exchange("POST", path, headers, content=body, wait=wait) as response:
            return _read(response)

    def put(self, path: str, source: Path, *, offset: int) -> Reply:
        length = source.stat().st_size - offset
        if length < 0:
            raise ValueError("the offset is behind the end of the file")
        headers = {"content-type": MEDIA_TYPE, "content-length": str(length), "upload-offset": str(offset)}
        with self._exchange("PUT", path, headers, content=_pieces(source, offset)) as response:
            return _read(response)

    def fetch(self, path: str, sink: Sink, *, offset: int) -> Reply:
        headers = {"range": f"bytes={offset}-"} if offset else {}
        with self._exchange("GET", path, headers) as response:
            if response.status_code not in (200, 206):
                return _read(response)
            passed_over = offset if response.status_code == 200 else 0
            for piece in response.iter_raw(CHUNK):
                skipped = min(passed_over, len(piece))
                passed_over -= skipped
                if len(piece) > skipped:
                    sink(piece[skipped:])
            return Reply(response.status_code)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], *, content: bytes | Iterator[bytes] | None = None,
        wait: float = 0.0,
    ) -> Iterator[httpx.Response]:  # fmt: skip
        try:
            with self._client.stream(
                method, path, headers=dict(headers), content=content, timeout=_timeout(wait)
            ) as response:
                yield response
        except httpx.TransportError as error:
            raise Unavailable(f"no answer from the server: {_reason(error)}") from error


def _proxy(endpoint: Endpoint) -> httpx.Proxy | None:
    proxy = endpoint.proxy
    if proxy is None:
        return None
    auth = (proxy.user, proxy.password) if proxy.user else None
    try:
        return httpx.Proxy(proxy.url, ssl_context=proxy.context(), auth=auth)
    except ValueError:
        raise Misconfigured("proxy.url is not a proxy's address", hint='as in "http://proxy.example:3128"') from None


def _timeout(wait: float) -> httpx.Timeout:
    return httpx.Timeout(ANSWER_SECONDS + wait, connect=CONNECT_SECONDS)


def _pieces(source: Path, offset: int) -> Iterator[bytes]:
    with source.open("rb") as file:
        file.seek(offset)
        while piece := file.read(CHUNK):
            yield piece


def _read(response: httpx.Response) -> Reply:
    parts, length = [], 0
    for piece in response.iter_raw(CHUNK):
        length += len(piece)
        if length > MAX_REPLY:
            raise Unavailable(f"the answer is over {MAX_REPLY} bytes: it is not our server's")
        parts.append(piece)
    return Reply(response.status_code, b"".join(parts))


def _reason(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return f"{type(error).__name__} (time-out)"
    return str(error) or type(error).__name__
