"""A site as processes of the installed program, for tests against a real server process."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secureproto_client.paths import SitePaths
from secureproto_server import invitations
from support.federation import Federation
from support.site_rig import KEY, RECORDS, SETTINGS

SECONDS = 60.0  # torch alone takes seconds to load on a busy machine
FINGERPRINT = re.compile(r"fingerprint: ([0-9a-f]{64})")


@dataclass
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


@dataclass
class ClientSite:
    """One site's directory, and the program run in it."""

    fed: Federation
    name: str
    module: str = "support.program"

    @property
    def root(self) -> Path:
        return self.fed.directory / "clients" / self.name

    @property
    def paths(self) -> SitePaths:
        return SitePaths(self.root)

    def prepare(self, settings: str = SETTINGS, records: str = RECORDS) -> None:
        """The engineer's files: settings and data."""
        self.root.mkdir(parents=True, exist_ok=True)
        credentials = f'credentials = "{self.fed.credentials}"\n'
        self.paths.settings.write_text(credentials + settings)
        (self.root / "patients.csv").write_text(records)

    def invite(self) -> Path:
        """The operator's invitation for this site."""
        out = self.root / "site.invite"
        invitations.invite(self.fed.desk, site=self.name, hours=1, out=out)
        return out

    def enrol(self) -> None:
        """Ask, have the operator approve what was read out, ask again."""
        invitation = self.invite()
        arguments = ("client", "enroll", "--invitation", str(invitation), "--site-dir", str(self.root))
        asked = self.run(*arguments)
        assert asked.code == 9, asked.err
        assert f"root digest: {self.fed.desk.root.digest()}" in asked.err
        found = FINGERPRINT.search(asked.err)
        assert found is not None
        desk = self.fed.desk
        invitations.approve(desk, invitations.waiting(desk, self.name, found[1]))
        done = self.run(*arguments)
        assert done.code == 0, done.err
        again = self.run(*arguments)
        assert (again.code, "by telephone" in asked.err, "by telephone" in again.err) == (0, True, False)
        self.paths.hold_out_key.write_bytes(KEY)  # a drawn one holds none of ten records out in 3 runs of 100

    def popen(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", self.module, *arguments],
            env={**os.environ, **environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> Ended:
        """Run a command to its end."""
        return ended(self.popen(*arguments, **environment))

    def client(self, verb: str, *arguments: str) -> Ended:
        """Run `client VERB DIR …`."""
        return self.run("client", verb, str(self.root), *arguments)

    def status(self) -> dict[str, Any]:
        """What `client status -o json` says."""
        shown = self.client("status", "-o", "json")
        assert shown.code == 0, shown.err
        found: dict[str, Any] = json.loads(shown.out)
        return found


def ended(process: subprocess.Popen[str], seconds: float = SECONDS) -> Ended:
    """Wait for a command's end; one that does not end is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"did not end within {seconds} s:\n{err}") from None
    return Ended(process.returncode, out, err)


def terminate(process: subprocess.Popen[str]) -> Ended:
    """SIGTERM, and what the command says to it."""
    process.send_signal(signal.SIGTERM)
    return ended(process)


def until(done: Any, seconds: float = SECONDS) -> None:
    """Wait until `done()`."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.05)
