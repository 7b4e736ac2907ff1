"""How the file of a run is opened: by one writer at a time, and by readers that leave no trace.

SQLite's log (WAL) needs two files beside the database, and a reader of it writes them. So, for a reader,

    a run that somebody works on   is read through the writer's own log
    one that nobody works on       as it lies: no log is begun beside it
    one that was killed            has its log beside it still: a copy of both is read, elsewhere

Source: sqlite.org/wal.html, "Read-Only Databases"; sqlite.org/uri.html, `mode` and `immutable`.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from time import sleep
from urllib.parse import quote

from secureproto.errors import Conflict, IntegrityBroken, Unavailable
from secureproto.regular import open_regular
from secureproto.simulation.disk import make_directory

BESIDE = ("-wal", "-journal")  # what SQLite has not put into the file yet
ROOM = "make room on the disk, or let this user write there"


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Hold the lock of a run; its file is gone afterwards.

    Raises:
        Conflict: another process has it.
        IntegrityBroken: the run, or its lock, is there and no file.
        Unavailable: the disk will not have it.
    """
    make_directory(path.parent)
    lock = path.with_suffix(".lock")
    try:
        _demand_file(path)
        descriptor = _locked(lock, path)
    except OSError as error:
        raise Unavailable(f"{error.filename or path}: {error.strerror}", hint=ROOM) from None
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(descriptor)


@contextmanager
def readable(path: Path) -> Iterator[str]:
    """The address at which SQLite reads a run, and writes nothing.

    Raises:
        IntegrityBroken: it is no file. Unavailable: it cannot be read, or there is no room for a copy.
    """
    try:
        _demand_file(path)
        with open_regular(path) as file:
            logged = file.read(20)[18:] == b"\x02\x02"  # its format numbers: only a log makes this a current state
        if _busy(path):
            yield f"file:{quote(os.fsencode(path))}?mode=ro"
        elif not _beside(path):
            # what is not logged needs no word: it may be begun anew meanwhile, and is then read under SQLite's locks
            yield f"file:{quote(os.fsencode(path))}?mode=ro" + ("&immutable=1" if logged else "")
        else:
            with TemporaryDirectory(prefix="secureproto-run-") as folder:
                yield f"file:{quote(os.fsencode(_copied(path, Path(folder))))}"
    except OSError as error:
        raise Unavailable(f"{path}: cannot be read: {error.strerror}", hint=ROOM) from None


def _copied(path: Path, folder: Path) -> Path:
    for name in (path.name, *_beside(path)):
        with open_regular(path.with_name(name)) as source, (folder / name).open("wb") as target:
            copyfileobj(source, target)
    return folder / path.name


def _beside(path: Path) -> list[str]:
    """What lies beside it and holds something."""
    found = []
    for ending in BESIDE:
        with suppress(FileNotFoundError):
            if path.with_name(path.name + ending).stat().st_size:
                found.append(path.name + ending)
    return found


def _busy(path: Path) -> bool:
    """Whether a process works on a run."""
    try:
        with open_regular(path.with_suffix(".lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # there is no lock, or none that we could be kept out by
    return False


def _locked(lock: Path, path: Path) -> int:
    """A descriptor that holds the lock."""
    attempts = 5  # who reads has it for an instant, to see whether anybody else has
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise IntegrityBroken(f"{lock}: is no file", hint="remove it and run again")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(descriptor, lock):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            attempts -= 1
            if attempts:
                sleep(0.02)
                continue
            raise Conflict(
                f"{path}: another process works on this run", hint="wait for it, or use another --out"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the one who had it took it away between the two steps


def _same(descriptor: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False


def _demand_file(path: Path) -> None:
    """Raises IntegrityBroken for what is there, or beside it, and no file: SQLite would wait for a pipe."""
    for each in (path, *(path.with_name(path.name + ending) for ending in (*BESIDE, "-shm"))):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(each.stat().st_mode):
                raise IntegrityBroken(f"{each}: is no file", hint="remove it and run again")
