"""Long bodies in pieces: sending a blob from an offset, and who may send an upload now.

Invariant: one piece of at most a chunk is in memory for each connection; reading and writing the disk is done in a
thread.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

from starlette.concurrency import run_in_threadpool

from secureproto.errors import NotFound, Rejected, Unavailable
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason
from secureproto_server.answers import OCTETS, Call
from secureproto_server.storage.blobs import BlobStore

RANGE = re.compile(r"bytes=([0-9]{1,15})-\Z")


async def send_blob(call: Call, blobs: BlobStore, name: str) -> None:
    """Answer with a blob, or from the offset of `Range: bytes=N-` on.

    Raises:
        NotFound: no such blob. Rejected: a range that is not one, or beyond the end.
    """
    size = await run_in_threadpool(blobs.size, name)
    if size is None:
        raise NotFound("the body is gone")
    start = _start(call.header("range"), size)
    headers = {"accept-ranges": "bytes"}
    if start:
        headers["content-range"] = f"bytes {start}-{size - 1}/{size}"
    with closing(await run_in_threadpool(blobs.open, name)) as blob:
        blob.seek(start)
        await call.begin(206 if start else 200, size - start, kind=OCTETS, headers=headers)
        left = size - start
        while left > 0:
            chunk = await run_in_threadpool(blob.read, min(left, LIMITS.chunk))
            if not chunk:
                raise Unavailable("a body ended early on the disk")
            left -= len(chunk)
            await call.part(chunk, more=left > 0)


class Fetches:
    """How many bodies each site is fetching: a piece of each is in memory for as long as the site does not read."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, site: str) -> Iterator[None]:
        """Hold one; in the event loop only.

        Raises:
            Unavailable: the site fetches too many at once.
        """
        if self._taken[site] >= self._each:
            raise Unavailable("this site fetches too many bodies at once", hint="one after the other")
        self._taken[site] += 1
        try:
            yield
        finally:
            self._taken[site] -= 1
            if not self._taken[site]:
                del self._taken[site]


class Slots:
    """How many bodies are being received, in all and of one site."""

    def __init__(self, *, total: int, each: int) -> None:
        self._total, self._each = total, each
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, site: str) -> Iterator[None]:
        """Hold a slot.

        Raises:
            Rejected: QUOTA, when the site sends too many at once. Unavailable: when all sites together do.
        """
        with self._lock:
            if self._taken[site] >= self._each:
                raise Rejected(Reason.QUOTA, "this site sends too many bodies at once", hint="one after the other")
            if self._taken.total() >= self._total:
                raise Unavailable("the server is receiving as many bodies as it can", hint="try again in a minute")
            self._taken[site] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[site] -= 1


def _start(text: str, size: int) -> int:
    if not text:
        return 0
    match = RANGE.match(text)
    if match is None or int(match[1]) >= size:
        raise Rejected(Reason.MALFORMED, "the range is not bytes=N- within the body")
    return int(match[1])
