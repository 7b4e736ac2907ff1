"""Waking those who wait: long polls wait for news, the coordinator for work. Safe to call from any thread.

Invariant: a waiter that took its `ticket` before it looked misses nothing: `wait` returns at once when something
was told since.
"""

import asyncio
import threading


class Wakeups:
    """One number that grows with each piece of news, and those who wait for it to grow."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def ticket(self) -> int:
        """The number before one looks."""
        with self._lock:
            return self._count

    def tell(self) -> None:
        """Something may be new."""
        with self._lock:
            self._count += 1
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self, ticket: int, seconds: float) -> None:
        """Return when something was told after `ticket`, or after so many seconds."""
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        with self._lock:
            if self._count != ticket:
                return
            self._waiting.add(waiter)
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return
        finally:
            with self._lock:
                self._waiting.discard(waiter)
