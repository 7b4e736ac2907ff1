"""Ending a client in good order: on SIGTERM it stops where it is, and the next run takes the round up again.

Every step of the site may be cut off (the journal sees to that), so a stop need not wait for one: it is an
exception out of whatever runs, be it a long poll or a training of hours.

Python ignores an exception that is raised while it runs a finalizer or a weak reference's callback (at the end of an
import, for one), and tells `sys.unraisablehook` of it. A stop that was lost like that comes again a moment later.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from secureproto.errors import Conflict, NotFound
from secureproto_client.durable import replace
from secureproto_client.paths import SitePaths

T = TypeVar("T")

AGAIN = 0.05  # seconds: by then whatever swallowed the stop is over


class Stopped(BaseException):
    """Somebody asked the client to end. Not an Exception: nothing that handles failures may take it for one."""


def in_good_order(work: Callable[[], T]) -> T | None:
    """The result of `work`; None when SIGTERM ended it, wherever it was, from its first step to its last."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    told = sys.unraisablehook
    try:
        _stop_on_signals()
        return work()
    except Stopped:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # before its handler goes: what is left of it would kill the process
        sys.unraisablehook = told
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_on_signals() -> None:
    """From now on SIGTERM raises `Stopped` in the main thread, until it has been heard."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the way out must not be interrupted
        raise Stopped

    tell = sys.unraisablehook

    def lost(ignored: "sys.UnraisableHookArgs") -> None:
        if ignored.exc_type is Stopped:
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
        else:
            tell(ignored)

    sys.unraisablehook = lost
    signal.signal(signal.SIGALRM, stop)
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
