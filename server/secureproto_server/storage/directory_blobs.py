"""Blobs as files of one directory: `blobs/` holds what is whole, `spool/` what is being received.

Both lie on one file system, so that finishing is one atomic rename. Files are 0600, directories 0700, no symbolic
link is followed. The store assumes that one process uses the directory (`lock.StateLock`).
"""

import errno
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from secureproto.errors import NotFound, SecureProtoError, Unavailable
from secureproto_server.storage.blobs import CHUNK, NAME, Names, Quota, Spool, require_name, require_offset

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC

Write = Callable[[int, memoryview], int]


class DirectorySpool:
    """A blob being received, in a file that is only appended to."""

    def __init__(self, spooled: Path, finished: Path, quota: Quota, write: Write) -> None:
        self._spooled = spooled
        self._finished = finished
        self._quota = quota
        self._write = write
        self._file = os.open(spooled, NEW_FILE, 0o600)
        self._length = os.fstat(self._file).st_size
        self._ended = False

    @property
    def length(self) -> int:
        return self._length

    def write(self, offset: int, chunk: bytes) -> None:
        self._require_going_on()
        require_offset(offset, self._length)
        try:
            self._quota.add(len(chunk))
            self._append(memoryview(chunk))
        except SecureProtoError:
            self.discard()
            raise

    def chunks(self) -> Iterator[bytes]:
        with self._spooled.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def finish(self) -> None:
        self._require_going_on()
        replaced = _size(self._finished) or 0
        try:
            os.fsync(self._file)  # the bytes first: after the rename a crash must not find holes in them
            self._spooled.rename(self._finished)
            _fsync_directory(self._finished.parent)
            _fsync_directory(self._spooled.parent)
        except OSError as error:
            self.discard()
            self._finished.unlink(missing_ok=True)  # renamed, but the name may not be durable
            raise _unavailable(error) from error
        self._ended = True  # from here the open file is the finished blob: nothing may touch it
        self._quota.remove(replaced)

    def discard(self) -> None:
        if self._ended:
            return
        # truncated before it is unlinked: the room is free at once, though the file is still open
        os.ftruncate(self._file, 0)
        self._spooled.unlink(missing_ok=True)
        self._quota.remove(self._length)
        self._length = 0
        self._ended = True

    def close(self) -> None:
        """Close the file; what was received stays."""
        os.close(self._file)

    def _require_going_on(self) -> None:
        if self._ended:
            raise ValueError("the spool was finished or discarded")

    def _append(self, rest: memoryview) -> None:
        counted = len(rest)
        try:
            while rest:
                written = self._write(self._file, rest)
                self._length += written
                counted -= written
                rest = rest[written:]
        except OSError as error:
            self._quota.remove(counted)
            raise _unavailable(error) from error


class DirectoryBlobs:
    """Blobs below `root`. `quota` bounds the bytes of finished and spooled blobs together."""

    def __init__(self, root: Path, *, quota: int | None = None, write: Write = os.write) -> None:
        """Open the store, creating its directories.

        `write` is the system call; a test passes one that fails as a full disk does.
        """
        self._spool = root / "spool"
        self._blobs = root / "blobs"
        for directory in (self._spool, self._blobs):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._quota = Quota(quota, sum(path.stat().st_size for path in self._files()))
        self._names = Names()
        self._write = write

    @contextmanager
    def spool(self, name: str) -> Iterator[Spool]:
        self._names.take(require_name(name))
        try:
            try:
                spool = DirectorySpool(self._spool / name, self._blobs / name, self._quota, self._write)
            except OSError as error:
                raise _unavailable(error) from error
            try:
                yield spool
            finally:
                spool.close()
        finally:
            self._names.release(name)

    def open(self, name: str) -> BinaryIO:
        path = self._blobs / require_name(name)
        try:
            return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
        except FileNotFoundError:
            raise NotFound(f"there is no blob {name}") from None

    def size(self, name: str) -> int | None:
        return _size(self._blobs / require_name(name))

    def delete(self, name: str) -> None:
        require_name(name)
        for directory in (self._blobs, self._spool):
            size = _size(directory / name)
            if size is not None:
                (directory / name).unlink()
                self._quota.remove(size)

    def sweep(self, keep: Collection[str]) -> list[str]:
        orphans = sorted(
            {path.name for path in self._files() if path.name not in keep and path.name not in self._names}
        )
        for name in orphans:
            self.delete(name)
        return orphans

    def _files(self) -> Iterator[Path]:
        for directory in (self._spool, self._blobs):
            # a file that is not ours (`lost+found`) is neither counted nor swept
            yield from (path for path in directory.iterdir() if NAME.fullmatch(path.name))


def _size(path: Path) -> int | None:
    try:
        return path.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return None


def _fsync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unavailable(error: OSError) -> Unavailable:
    if error.errno in FULL:
        return Unavailable("the server's disk is full", hint="free room in its state directory, then send again")
    return Unavailable(f"the server's disk failed ({errno.errorcode.get(error.errno or 0, 'unknown')})")
