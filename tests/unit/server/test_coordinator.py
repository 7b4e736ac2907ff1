"""The coordinator's own clockwork: what it does beside rounds."""

import asyncio
from pathlib import Path

from secureproto_server import coordinator
from secureproto_server.clock_guard import MARK
from secureproto_server.coordinator import MARK_SECONDS
from secureproto_server.storage.records import Meta
from support.parts import Parts, parts_in


def mark(parts: Parts) -> int:
    with parts.services.store.transaction("look") as tx:
        found = tx.get(Meta, MARK)
    return 0 if found is None else int(found.value)


def test_the_clocks_mark_is_kept_while_the_server_runs(tmp_path: Path) -> None:
    """So that a clock set back is seen at the next start also when the server was killed."""
    parts = parts_in(tmp_path)

    async def run() -> None:
        stopping = asyncio.Event()
        running = asyncio.create_task(coordinator.run(parts.services, stopping))
        await asyncio.sleep(0.1)  # it has begun: time counts from here
        for _ in range(3):
            parts.clock.advance(MARK_SECONDS + 1)
            parts.services.work.tell()
            for _ in range(200):
                await asyncio.sleep(0.01)
                if mark(parts) == int(parts.clock.now()):
                    break
            assert mark(parts) == int(parts.clock.now())
        stopping.set()
        await running

    asyncio.run(run())
