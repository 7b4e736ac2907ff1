"""Files that only their owner may read, written once and whole.

Invariant: at no moment is there a file of that name with part of the content, with other content than asked for,
or with a mode that lets another user read it; an existing file is never replaced, for a lost key cannot be had
again.
"""

import os
import secrets
from pathlib import Path

from secureproto.errors import Conflict, Misconfigured

MODE = 0o600


def write_once(path: Path, data: bytes) -> None:
    """Create `path` with mode 0600 and exactly `data`, durably.

    Raises:
        Conflict: the file is there already.
        Misconfigured: the directory is missing or cannot be written.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            _write(draft, data)
            # a hard link, not a rename: it fails when the name is taken, and two writers cannot both win
            os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        _sync_directory(path.parent)
    except FileExistsError:
        raise Conflict(f"{path} is there already", hint="keys are never overwritten: move it away") from None
    except OSError as error:
        raise Misconfigured(f"cannot write {path}: {error.strerror}", hint="check the directory") from None


def read_private(path: Path, forbidden: int = 0o077) -> bytes:
    """The content of a secret file, if nobody beside its owner has a permission of the mask `forbidden`.

    Raises:
        Misconfigured: missing, unreadable, or its mode lets others at it.
    """
    try:
        with path.open("rb") as file:
            # of the open file, so that it cannot be swapped between the check and the reading
            if os.fstat(file.fileno()).st_mode & forbidden:
                raise Misconfigured(f"{path} can be read by other users", hint=f"chmod 600 {path}")
            return file.read()
    except OSError as error:
        raise Misconfigured(f"cannot read {path}: {error.strerror}", hint="check the path and its owner") from None


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
