import asyncio
import threading
import time

from secureproto_server.wakeups import Wakeups


def waited(wakeups: Wakeups, ticket: int, seconds: float) -> float:
    begun = time.monotonic()
    asyncio.run(wakeups.wait(ticket, seconds))
    return time.monotonic() - begun


def test_nothing_told_is_a_wait_to_the_end() -> None:
    wakeups = Wakeups()
    assert 0.05 <= waited(wakeups, wakeups.ticket(), 0.05) < 1


def test_what_was_told_after_the_ticket_is_not_missed() -> None:
    wakeups = Wakeups()
    ticket = wakeups.ticket()
    wakeups.tell()
    assert waited(wakeups, ticket, 5) < 1


def test_another_thread_wakes_everybody() -> None:
    wakeups = Wakeups()

    async def all_wait() -> None:
        ticket = wakeups.ticket()
        threading.Timer(0.05, wakeups.tell).start()
        await asyncio.gather(*(wakeups.wait(ticket, 5) for _ in range(50)))

    begun = time.monotonic()
    asyncio.run(all_wait())
    assert time.monotonic() - begun < 2


def test_a_loop_that_is_gone_is_passed_over() -> None:
    wakeups = Wakeups()
    asyncio.run(wakeups.wait(wakeups.ticket(), 0.01))
    wakeups.tell()
    assert wakeups.ticket() == 1
