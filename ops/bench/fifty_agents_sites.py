"""Some of the sites of `fifty_agents.py`: the real client's agents, one thread each, with a record of their steps.

`python ops/bench/fifty_agents_sites.py RECORD.json SITE_DIR…`; the bench starts it. Each agent opens its own
directory (keys, certificate, journal, line) as `secureproto client run` does and works until its study is over;
functions are timed from outside.
"""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from secureproto.clock import SystemClock
from secureproto_client import agent, delivery, procedure, releases
from secureproto_client.agent import Agent
from secureproto_client.database import Database
from secureproto_client.opening import open_site
from secureproto_client.paths import SitePaths
from secureproto_client.stopping import only_client
from secureproto_client.training import TorchLearner

WATCHED: tuple[tuple[Any, str, str], ...] = (
    (agent, "poll", "poll"),
    (releases, "install", "install"),
    (TorchLearner, "score", "score"),
    (procedure, "answer", "answer"),
    (TorchLearner, "train", "train"),
    (procedure, "seal", "seal"),
    (delivery, "deliver", "deliver"),
    (Database, "transaction", "commit"),  # counted only: the note is made when the block begins
    (os, "fsync", "fsync"),  # of files; a commit has its own
)


class Recorder:
    """Steps of all agents of this process."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str, float, float, float, float]] = []
        self.failures: list[str] = []

    def timed(self, word: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original`, and a note of (step, site, begin, end, CPU of its thread, CPU of the process so far)."""

        def call(*arguments: Any, **named: Any) -> Any:
            begun, cpu = time.monotonic(), time.thread_time()
            try:
                return original(*arguments, **named)
            finally:
                spent, site = time.thread_time() - cpu, threading.current_thread().name
                self.steps.append((word, site, begun, time.monotonic(), spent, time.process_time()))

        return call

    def work(self, directory: Path) -> None:
        """One agent, from opening its directory to the end of its study."""
        paths = SitePaths(directory)
        try:
            with only_client(paths), open_site(paths, clock=SystemClock(), sleep=time.sleep) as site:
                Agent(site, time.sleep).run(until_complete=True)
        except Exception as error:
            logging.exception("%s", directory.name)
            self.failures.append(f"{directory.name}: {error}")


def main() -> int:
    """Run them all to their end; write the record; 1 when one failed."""
    out, directories = Path(sys.argv[1]), [Path(text) for text in sys.argv[2:]]
    logging.basicConfig(filename=out.with_suffix(".log"), level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    torch.set_num_threads(1)
    recorder = Recorder()
    with ExitStack() as stack:
        for owner, name, word in WATCHED:
            stack.enter_context(patch.object(owner, name, recorder.timed(word, getattr(owner, name))))
        threads = [threading.Thread(target=recorder.work, args=(d,), name=d.name) for d in directories]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    record = {"steps": recorder.steps, "failures": recorder.failures}
    out.write_text(json.dumps(record), encoding="utf-8")
    return 1 if recorder.failures else 0


if __name__ == "__main__":
    sys.exit(main())
