"""One process at a ledger: a lock beside the file, which the kernel releases however the process ends.

A lock on the database file itself would fall when this process opens and closes that file anywhere else (POSIX
locks), and SQLite's own is held only within a transaction: two processes could each charge on a state of their own.
The lock's file is never removed: a lock on a removed file would be no lock.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from secureproto.errors import Conflict, Misconfigured
from secureproto_client.durable import PRIVATE_FILE


class LedgerLock:
    """The lock of the ledger `path`, held from when it is made until `release`."""

    def __init__(self, path: Path) -> None:
        """Take it at once.

        Raises:
            Conflict: another process, or this one, has it; the message names the process.
            Misconfigured: no such directory, or not ours to write.
        """
        name = path.with_name(f"{path.name}.lock")
        try:
            file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise Misconfigured(
                f"cannot open {name}: {error.strerror}", hint="the directory must exist and be the client's to write"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(file)
            raise Conflict(
                f"the ledger {path} is in use by process {holder}", hint="stop that client first (client stop)"
            ) from None
        with suppress(OSError):  # a full disk: the number is for people, the lock is the kernel's
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file: int | None = file

    def release(self) -> None:
        """Let go of it; again is nothing."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
