"""The server of `fifty_agents.py`: `secureproto server run`, with a record of what it did and when.

`python ops/bench/fifty_agents_server.py SERVER_DIR RECORD.json`; the bench starts it. Nothing of the server is
replaced: functions are timed from outside, and what they did is written when the server ends. Times are of the
monotonic clock, which all processes of a host share, so that they can be laid beside the sites' own.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from secureproto.cli.root import run
from secureproto_server import aggregate, coordinator, gauges, news, receive
from secureproto_server.storage.sql import SqlStore

# what runs in the server's threads; what is left of the process is its event loop: HTTP, TLS, routing
WATCHED: tuple[tuple[Any, str], ...] = (
    (news, "authenticate"),
    (news, "reply"),
    (receive, "accept_manifest"),
    (receive, "resume"),
    (receive.Body, "write"),
    (receive.Body, "finish"),
    (aggregate, "run"),
    (aggregate, "complete"),
    (gauges, "refresh"),
    (coordinator, "step_all"),
)


class Recorder:
    """Calls and transactions of this process, as lists of plain values."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float, float, float, float]] = []
        self.transactions: list[tuple[str, float, float, float, float, int]] = []

    def timed(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original`, and a note of (name, begin, end, CPU of its thread, CPU of the process so far)."""

        def call(*arguments: Any, **named: Any) -> Any:
            begun, cpu = time.monotonic(), time.thread_time()
            try:
                return original(*arguments, **named)
            finally:
                spent = time.thread_time() - cpu
                self.calls.append((name, begun, time.monotonic(), spent, time.process_time()))

        return call

    def transaction(self, original: Callable[..., Any]) -> Callable[..., AbstractContextManager[Any]]:
        """`SqlStore.transaction`, and a note of (name, asked, begun, before the commit, end, rows changed)."""

        @contextmanager
        def transaction(store: SqlStore, name: str) -> Iterator[Any]:
            asked = time.monotonic()
            changed, committing = 0, 0.0
            begun = asked
            try:
                with original(store, name) as tx:
                    begun = time.monotonic()
                    driver = tx._connection.connection.dbapi_connection
                    before = driver.total_changes
                    yield tx
                    changed, committing = driver.total_changes - before, time.monotonic()
            finally:
                self.transactions.append((name, asked, begun, committing, time.monotonic(), changed))

        return transaction


def main() -> int:
    """Serve until told to stop; then write the record."""
    directory, out = sys.argv[1], Path(sys.argv[2])
    recorder = Recorder()
    with ExitStack() as stack:
        for owner, name in WATCHED:
            word = f"{getattr(owner, '__name__', '').rpartition('.')[2]}.{name}"
            stack.enter_context(patch.object(owner, name, recorder.timed(word, getattr(owner, name))))
        stack.enter_context(patch.object(SqlStore, "transaction", recorder.transaction(SqlStore.transaction)))
        code = run(["server", "run", directory])
    record = {"calls": recorder.calls, "transactions": recorder.transactions, "threads": threading.active_count()}
    out.write_text(json.dumps(record), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
