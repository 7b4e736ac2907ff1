"""Ending a client in good order: on SIGTERM it stops where it is, and the next run takes the round up again.

Every step of the site may be cut off (the journal sees to that), so a stop need not wait for one: it is an
exception out of whatever runs, be it a long poll or a training of hours.
"""

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from secureproto.errors import Conflict, NotFound
from secureproto_client.durable import replace
from secureproto_client.paths import SitePaths

T = TypeVar("T")


class Stopped(BaseException):
    """Somebody asked the client to end. Not an Exception: nothing that handles failures may take it for one."""


def in_good_order(work: Callable[[], T]) -> T | None:
    """The result of `work`; None when SIGTERM ended it, wherever it was, from its first step to its last."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        _stop_on_signals()
        return work()
    except Stopped:
        return None
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop_on_signals() -> None:
    """From now on SIGTERM raises `Stopped` in the main thread."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the way out must not be interrupted
        raise Stopped

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def only_client(paths: SitePaths) -> Iterator[None]:
    """The lock of a site's state, and the process id for `client stop`.

    Raises:
        Conflict: another client has it.
    """
    with paths.lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"another client runs in {paths.root}", hint="secureproto client stop, or see `client status`"
            ) from None
        try:
            replace(paths.pid, f"{os.getpid()}\n".encode())
            yield
        finally:
            paths.pid.unlink(missing_ok=True)


def running(paths: SitePaths) -> int | None:
    """The process id of the client that holds the lock; None when none does."""
    try:
        with paths.lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return _pid(paths.pid)


def stop(paths: SitePaths) -> int:
    """Ask the running client to end; its process id. Raises NotFound when none runs."""
    pid = running(paths)
    if pid is None:
        raise NotFound(f"no client runs in {paths.root}")
    os.kill(pid, signal.SIGTERM)
    return pid


def _pid(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
