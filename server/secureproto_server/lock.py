"""One process owns a state directory: an exclusive lock that the kernel releases however the process ends."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from secureproto.errors import Conflict, Misconfigured


class StateLock:
    """The lock on `directory`, held inside a `with` block.

    The file holds its owner's process id for people; the lock itself is the kernel's (flock), so a file left by a
    killed process locks nothing. The file is never removed: a lock on a removed file would be no lock.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._file: int | None = None

    def __enter__(self) -> Self:
        """Take the lock at once.

        Raises:
            Conflict: another process has it; the message names its process id.
            Misconfigured: the directory does not exist or cannot be written.
        """
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Misconfigured(
                f"cannot open {self._path}: {error.strerror}", hint="the state directory must exist and be ours"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(file)
            raise Conflict(
                f"{self._path.parent} is in use by process {holder}", hint="stop that process first"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)  # closing releases the lock
            self._file = None
