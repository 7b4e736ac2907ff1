"""Sealed blobs: ciphertext by name. Written through a spool that may be resumed, visible only when whole.

The life of a blob:
1. `spool(name)` opens what was received so far (nothing, or what a broken connection or a crash left).
2. `write(offset, chunk)` appends at exactly the present length; `chunks()` reads it back to be checked.
3. `finish()` makes the bytes and then the name durable, in this order: a name never stands for half a blob.
4. The caller commits the row that names it. A crash between 3 and 4 leaves an orphan, which `sweep` removes.

Invariants: only one spool of a name is open at a time (a second is Conflict); a blob never changes (finishing over
an existing name replaces it whole); what could not be written leaves nothing behind. Only ciphertext comes here.
"""

import re
import threading
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from secureproto.errors import Conflict, Rejected
from secureproto.wire.reasons import Reason

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")  # no separator, no leading dot: it cannot leave the directory
CHUNK = 1 << 20  # bytes read at once: large enough that system calls vanish, small enough to bound memory


class Spool(Protocol):
    """A blob while it is being received. Writing or finishing after its end is misuse (ValueError)."""

    @property
    def length(self) -> int:
        """Bytes received so far."""
        ...

    def write(self, offset: int, chunk: bytes) -> None:
        """Append.

        Raises:
            Conflict: `offset` is not the present length.
            Rejected: QUOTA, the store's own bound would be passed; the spool is discarded.
            Unavailable: the disk is full or fails; the spool is discarded.
        """
        ...

    def chunks(self) -> Iterator[bytes]:
        """What was received so far, in order, in pieces of at most CHUNK bytes."""
        ...

    def finish(self) -> None:
        """Make the blob durable and visible. Only then may a row name it."""
        ...

    def discard(self) -> None:
        """Throw away what was received; nothing happens after `finish` or `discard`."""
        ...


class BlobStore(Protocol):
    """Where the blobs are. Names match NAME; another is misuse (ValueError)."""

    def spool(self, name: str) -> AbstractContextManager[Spool]:
        """Receive a blob. Leaving the block without `finish` or `discard` keeps the bytes, to be resumed.

        Raises:
            Conflict: another connection is receiving this blob now.
        """
        ...

    def open(self, name: str) -> BinaryIO:
        """Read a finished blob; the caller closes it.

        Raises:
            NotFound: there is no such blob.
        """
        ...

    def size(self, name: str) -> int | None:
        """Length of a finished blob in bytes, or None if there is none."""
        ...

    def delete(self, name: str) -> None:
        """Remove the blob and any spool of that name; nothing happens when there is none."""
        ...

    def sweep(self, keep: Collection[str]) -> list[str]:
        """Remove every blob and idle spool whose name is not in `keep`; returns their names, sorted."""
        ...


def require_name(name: str) -> str:
    """Refuse a name that could be anything but a plain file of our own."""
    if NAME.fullmatch(name) is None:
        raise ValueError("a blob's name is lower-case letters, digits, dot, dash and underscore, at most 200")
    return name


class Names:
    """The names that are being received; each at most once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    def take(self, name: str) -> None:
        """Take a name, or refuse with Conflict."""
        with self._lock:
            if name in self._taken:
                raise Conflict("this upload is being received on another connection", hint="try again later")
            self._taken.add(name)

    def release(self, name: str) -> None:
        """Give a name back."""
        with self._lock:
            self._taken.discard(name)

    def __contains__(self, name: str) -> bool:
        return name in self._taken


class Quota:
    """Bytes in the store against a bound, counted as they come and go."""

    def __init__(self, limit: int | None, used: int = 0) -> None:
        self._limit = limit
        self._used = used
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count bytes about to be written, or refuse with Rejected(QUOTA) and count nothing."""
        with self._lock:
            if self._limit is not None and self._used + count > self._limit:
                raise Rejected(Reason.QUOTA, "the server's room for uploads is used up", hint="try again later")
            self._used += count

    def remove(self, count: int) -> None:
        """Count bytes that are gone."""
        with self._lock:
            self._used -= count


def require_offset(offset: int, length: int) -> None:
    """Refuse to write anywhere but at the end."""
    if offset != length:
        raise Conflict(f"{length} bytes were received, the next piece is for offset {offset}")
