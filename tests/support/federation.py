"""A real federation on loopback: the server as a process of its own, sites made of the core's crypto and httpx.

    with federation(tmp_path) as fed:
        site = fed.enrol("alpha")
        fed.create_study(a_study(sites=1))
        fed.open_round()
        invitation = site.invitation()
        site.answer(invitation, site.update(invitation, seed=1))

The server listens on free ports; nothing here imports torch: the model is a few arrays.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secureproto.clock import SystemClock
from secureproto_server.desk import Desk
from secureproto_server.founding import Charter, found
from secureproto_server.studying import Prepared, send
from support.sim_site import SimSite, enrol
from support.sim_study import SimStudy

SECONDS = 20.0  # for anything that takes milliseconds on an idle machine
NAME = "testbed"


@dataclass
class Federation:
    """A federation's directory, its server process and its operator's desk."""

    directory: Path
    credentials: Path
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    sites: dict[str, SimSite] = field(default_factory=dict)
    study: SimStudy | None = None

    @property
    def state(self) -> Path:
        return self.directory / "server/state"

    @property
    def ports(self) -> dict[str, int]:
        found_: dict[str, int] = json.loads((self.state / "ports.json").read_text())
        return found_

    @property
    def desk(self) -> Desk:
        desk = Desk(self.directory / "operator", credentials=self.credentials)
        url = f"https://127.0.0.1:{self.ports['admin']}"
        desk.settings = desk.settings.model_copy(update={"admin_url": url})
        return desk

    def start(self, *arguments: str) -> None:
        """Start the server and wait until its ports accept connections."""
        (self.state / "ports.json").unlink(missing_ok=True)
        ports = {f"SECUREPROTO_SERVER_{name}__PORT": "0" for name in ("SITE", "ADMIN", "METRICS", "HEALTH")}
        if self.sites:  # sites know the port
            ports["SECUREPROTO_SERVER_SITE__PORT"] = str(next(iter(self.sites.values())).port)
        log = (self.directory / "server.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.serve", str(self.directory / "server"), *arguments],
            env={**os.environ, **ports, **self.environment, "PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=log,
            stderr=log,
        )
        log.close()
        self.until(lambda: (self.state / "ports.json").exists())

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the server by a signal; its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(number)
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.process = None
        return code

    def kill(self) -> None:
        """End the server at this very moment."""
        self.stop(signal.SIGKILL)

    def until(self, done: Any, seconds: float = SECONDS) -> None:
        """Wait until `done()`; fails when the server has ended or the time is over."""
        end = time.monotonic() + seconds
        while not done():
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"the server ended:\n{self.log()}")
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s; the server says:\n{self.log()}")
            time.sleep(0.02)

    def log(self) -> str:
        return (self.directory / "server.log").read_text()

    def enrol(self, name: str) -> SimSite:
        """A site invited, enrolled and approved."""
        site = enrol(self.desk, self.ports["site"], self.directory / "sites" / name, name)
        self.sites[name] = site
        return site

    def create_study(self, study: SimStudy) -> SimStudy:
        """Create a study at the running server."""
        desk = self.desk
        prepared = Prepared(study.descriptor(desk.settings.federation), study.shared_bytes(), study.head_bytes())
        send(desk, prepared)
        self.study = study
        return study

    def open_rounds(self, rounds: int = 1) -> dict[str, Any]:
        assert self.study is not None
        path = f"studies/{self.study.name}/rounds"
        opened: dict[str, Any] = self.desk.post(path, {"rounds": rounds}, meaning="open rounds")
        return opened

    def round(self, number: int | None = None) -> dict[str, Any]:
        assert self.study is not None
        which = "last" if number is None else number
        record: dict[str, Any] = self.desk.get(f"studies/{self.study.name}/rounds/{which}", meaning="look")
        return record

    def until_ended(self, number: int, outcome: str = "completed") -> None:
        """Wait for a round's end."""
        self.until(lambda: self.round(number)["ended"])
        assert self.round(number)["phase"] == outcome

    def audit(self, count: int = 1000) -> list[dict[str, Any]]:
        """The log's last entries as plain values."""
        desk = self.desk
        size = desk.get("status", meaning="look")["log_size"]
        lines = desk.request("GET", f"audit/{max(0, size - count)}/{count}", b"", meaning="look").splitlines()
        return [json.loads(line)["entry"] for line in lines]


@contextmanager
def federation(directory: Path, *, start: bool = True) -> Iterator[Federation]:
    """A federation founded in `directory`, its server running; ended with the block."""
    charter = Charter(NAME, ("localhost", "127.0.0.1"), "alice", "Test Hospital")
    fed = Federation(directory / "federation", directory / "credentials")
    found(fed.directory, charter, fed.credentials, SystemClock())
    try:
        if start:
            fed.start()
        yield fed
    finally:
        for site in fed.sites.values():
            site.close()
        fed.stop()
