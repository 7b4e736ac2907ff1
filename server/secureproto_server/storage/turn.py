"""Whose turn it is to write, among the threads of one process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turn:
    """A lock that refuses, instead of hanging, a thread that would wait for itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: tuple[int, str] | None = None

    @contextmanager
    def taken(self, name: str) -> Iterator[None]:
        """Wait for the turn, and hold it as `name`.

        Raises:
            ValueError: this thread holds it already.
        """
        me = threading.get_ident()
        # safe unlocked: only this thread ever writes its own ident, so it cannot read a false match
        holder = self._holder
        if holder is not None and holder[0] == me:
            raise ValueError(f"transaction {name!r} inside transaction {holder[1]!r}")
        with self._lock:
            self._holder = (me, name)
            try:
                yield
            finally:
                self._holder = None
