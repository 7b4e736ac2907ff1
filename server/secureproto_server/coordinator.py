"""The coordinator: looks at every study, does what its round needs, sleeps until something happens.

Invariants: it keeps no state but the store's, so a restart goes on where the last process was killed; all its work
runs in one worker thread, one step at a time, so the event loop stays free and no two steps meet; a step that fails
is logged and tried again, and the studies beside it go on.
"""

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from secureproto.clock import seconds
from secureproto.errors import SecureProtoError
from secureproto_server import aggregate, clock_guard, gauges, phases, rounds, sweeper
from secureproto_server.phases import Phase
from secureproto_server.services import Services
from secureproto_server.storage.records import Round, Study

TICK_SECONDS = 1.0  # deadlines are whole seconds
RETRY_SECONDS = 5.0  # after a failed step: a full disk does not empty itself faster
SWEEP_SECONDS = 60.0
MARK_SECONDS = 5.0  # a clock set back by more than this is seen at the next start, also after a kill
LOG = logging.getLogger("secureproto.server.coordinator")


async def run(services: Services, stopping: asyncio.Event) -> None:
    """Coordinate until `stopping` is set; a step under way is finished first."""
    loop = asyncio.get_running_loop()
    swept = marked = services.clock.monotonic()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="coordinator") as worker:
        await loop.run_in_executor(worker, sweeper.sweep, services)
        while not stopping.is_set():
            ticket = services.work.ticket()
            failed = not await loop.run_in_executor(worker, step_all, services)
            if services.clock.monotonic() - marked >= MARK_SECONDS:
                marked = services.clock.monotonic()
                await loop.run_in_executor(worker, _keep_mark, services)
            if services.clock.monotonic() - swept >= SWEEP_SECONDS:
                swept = services.clock.monotonic()
                await loop.run_in_executor(worker, sweeper.sweep, services)
            if failed:
                await _pause(stopping, RETRY_SECONDS)
            else:
                await _first(services.work.wait(ticket, TICK_SECONDS), stopping)


def _keep_mark(services: Services) -> None:
    try:
        with services.store.transaction("keep clock mark") as tx:
            clock_guard.keep_mark(tx, seconds(services.clock))
    except SecureProtoError as error:
        LOG.error("the clock's mark was not kept: %s", error.message)


def step_all(services: Services) -> bool:
    """One look at every study; says whether all went well."""
    try:
        with services.store.transaction("list studies") as tx:
            names = [row.study for row in tx.select(Study)]
    except SecureProtoError as error:
        LOG.error("cannot read the studies: %s", error.message)
        return False
    went_well = [_step_safely(services, name) for name in names]
    gauges.refresh(services)
    return all(went_well)


def step(services: Services, study: str) -> None:
    """Do all that the study's round needs now, until there is nothing to do but wait."""
    while True:
        with services.store.transaction("read round") as tx:
            current = rounds.current(tx, study)
        if current is None:
            if not rounds.open_next(services, study):
                return
            continue
        after = _advance(services, study, current)
        if after is Phase.COLLECT and current.phase == after:
            return
        LOG.info("round moved: study=%s round=%d phase=%s", study, current.round, after)


def _advance(services: Services, study: str, row: Round) -> Phase:
    """Do what the phase asks for, and measure it."""
    before, begun = Phase(row.phase), services.clock.monotonic()
    match before:
        case Phase.AGGREGATE:
            after = aggregate.run(services, study, row.round)
        case Phase.PUBLISH:
            after = aggregate.complete(services, study, row.round)
        case _:
            after = rounds.close_if_due(services, study, row.round)
    if after is not before:
        age = services.clock.now() - row.opened
        spent = age if before is Phase.COLLECT else services.clock.monotonic() - begun
        services.metrics.phase_finished(study, str(before), seconds=spent)
        if after in phases.ENDS:
            services.metrics.round_finished(study, str(after), seconds=age)
    return after


def _step_safely(services: Services, study: str) -> bool:
    try:
        step(services, study)
    except SecureProtoError as error:
        LOG.error("study %s: %s", study, error.message)
        return False
    except Exception:
        LOG.exception("study %s: a fault of this program", study)
        return False
    return True


async def _pause(stopping: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return


async def _first(waiting: Coroutine[Any, Any, None], stopping: asyncio.Event) -> None:
    tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(stopping.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
