"""Reading and writing the files of an experiment: every refusal of the disk is one line and has a family.

Invariants: a reader of a file sees its old content or its new one, never a part; nothing here waits for a pipe; what
an experiment owns was meddled with if it is gone or of another kind, and not if it may not be read.
"""

import errno
import secrets
import stat
from pathlib import Path

from secureproto.errors import IntegrityBroken, Misconfigured, Unavailable
from secureproto.regular import read_regular

DRAFT = ".draft"
# what the system says of a path that is not what it was when the experiment wrote it
_MEDDLED = {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.ELOOP, errno.ENXIO}
RESTORE = "restore it, or run again elsewhere"


def read_owned(path: Path) -> bytes:
    """The bytes of a file that belongs to an experiment.

    Raises:
        IntegrityBroken: it is gone, or no file any more. Unavailable: it cannot be read now.
    """
    try:
        return read_regular(path)
    except OSError as error:
        raise meddled_or_unavailable(path, error) from None


def entries(folder: Path) -> list[Path]:
    """What is in a folder that belongs to an experiment, sorted, without what is hidden; nothing if it is not there.

    Raises:
        IntegrityBroken: it is no folder. Unavailable: it cannot be read now.
    """
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise meddled_or_unavailable(folder, error) from None


def is_folder(path: Path) -> bool:
    """Whether an entry of an experiment's folder is one itself.

    Raises:
        IntegrityBroken: a link that leads nowhere. Unavailable: it cannot be looked at now.
    """
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        raise meddled_or_unavailable(path, error) from None


def meddled_or_unavailable(path: Path, error: OSError) -> IntegrityBroken | Unavailable:
    """An error at reading what belongs to an experiment, by whose fault it is."""
    if error.errno in _MEDDLED:
        return IntegrityBroken(f"{path}: was changed after it was written: {error.strerror}", hint=RESTORE)
    return Unavailable(f"{path}: cannot be read: {error.strerror}", hint="check its owner, its mode and the disk")


def make_directory(path: Path) -> None:
    """Make a directory and those above it. Raises Unavailable when the disk will not have it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"cannot make {path}: {error.strerror}", hint="check the path, its owner and the disk"
        ) from None


def write_atomically(path: Path, data: bytes) -> None:
    """Give `path` the content `data`, in place of what it had; a character device (/dev/stdout) is written to.

    Raises:
        Misconfigured: what is there is a folder, a pipe, a socket or a disk.
        Unavailable: the disk will not take it; then what was there stays.
    """
    try:
        kind = _kind(path)
        if stat.S_ISCHR(kind):
            with path.open("wb", buffering=0) as device:
                device.write(data)
        elif kind and not stat.S_ISREG(kind):
            raise Misconfigured(f"{path}: is there already, and is no file", hint="give another path")
        else:
            _replace(path, data)
    except OSError as error:
        raise Unavailable(
            f"cannot write {path}: {error.strerror}", hint="check the path, its owner and the disk"
        ) from None


def _kind(path: Path) -> int:
    """The mode of what is there, 0 if nothing is."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def _replace(path: Path, data: bytes) -> None:
    # a name of its own: what stands in the way of one is never opened, and two writers never share a draft
    draft = path.with_name(f".{secrets.token_hex(8)}{DRAFT}")
    try:
        with draft.open("xb") as file:
            file.write(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
