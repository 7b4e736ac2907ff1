"""Files of the site that are replaced as a whole, and are on the disk when the call returns.

Invariants: a reader sees the old content or the new one, never a part; every file is private to its owner (0600);
after a return the content survives a power cut (file and directory are flushed).
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from secureproto.errors import Unavailable

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def make_directory(path: Path) -> Path:
    """Make `path` and what is missing above it, private to the owner. Raises Unavailable when it cannot."""
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot make {path}: {error.strerror}", hint="check the disk and the owner") from None
    return path


def replace(path: Path, data: bytes) -> None:
    """Give `path` the content `data`. Raises Unavailable when the disk will not take it; then the old one stays."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that becomes `path` at the end of the block; an exception leaves `path` as it was."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}", hint="check the disk and the owner") from None


def sync_directory(path: Path) -> None:
    """Flush the names in `path`."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
