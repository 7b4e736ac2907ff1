"""Opening a file that must be a regular one: never a pipe that waits for a writer, never a device without an end.

Raises OSError alone, with a reason a person can read, as `open` does: whose fault it is, the caller knows.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """A regular file, open for reading; links are followed. It never waits.

    Raises:
        OSError: as `open`; and for a directory, pipe, socket or device.
    """
    kind = path.stat().st_mode  # before it is opened: opening alone has effects on some devices
    _demand(path, kind)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _demand(path, os.fstat(descriptor).st_mode)  # what is there now may be another
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path) -> bytes:
    """All bytes of a regular file. Raises as `open_regular`."""
    with open_regular(path) as file:
        return file.read()


def is_there(path: Path) -> bool:
    """Whether anything is at a path that can be seen from here; never an error, as of a name too long."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _demand(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
