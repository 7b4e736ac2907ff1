"""The demo's two sides, as two sets of people would play them: the operator's desk and server, the four hospitals.

Each step is a command of the installed program, run as a process of its own, with what the README tells a person to
compare by telephone compared here too. Nothing is called inside the server or the sites.
"""

import json
import socket
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secureproto.errors import ApprovalNeeded, Unavailable
from secureproto.simulation.heart.hospitals import HOSPITALS, SPLIT_COLUMN, write_hospital
from secureproto_client.demo.metrics import totals
from secureproto_client.demo.processes import Processes

START_SECONDS = 30.0
ROUND_SECONDS = 180.0  # the study's deadline: a round that takes longer has failed; the first loads torch everywhere
TICK = 0.25
PORTS = ("site", "admin", "metrics", "health")
DEFAULT_PORTS = {"site": 8443, "admin": 8444, "metrics": 9464, "health": 8081}

SITE_SETTINGS = """# Settings of {name}. The demo wrote this file; at a real site the engineer does.
credentials = "{credentials}"

[data]
kind = "csv"
path = "patients.csv"
split_column = "{split}"

[studies.heart]
accept = true
"""


@dataclass(frozen=True)
class Places:
    """Where everything of the demo lies, below `out`."""

    out: Path

    @property
    def federation(self) -> Path:
        return self.out / "federation"

    @property
    def operator(self) -> Path:
        return self.federation / "operator"

    @property
    def server(self) -> Path:
        return self.federation / "server"

    @property
    def logs(self) -> Path:
        return self.out / "logs"

    @property
    def audit_log(self) -> Path:
        return self.out / "audit-log.jsonl"

    @property
    def credentials(self) -> Path:
        return self.out / "credentials"

    def site(self, name: str) -> Path:
        """A hospital's directory."""
        return self.out / "sites" / name

    def site_credentials(self, name: str) -> Path:
        """A hospital's own credential directory."""
        return self.credentials / name


class Desk:
    """The operator's commands."""

    def __init__(self, processes: Processes, places: Places) -> None:
        self._processes, self._places = processes, places
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))

    def found(self) -> None:
        """`federation init`, and free ports written into the two settings files that it made."""
        self._processes.command(
            "federation", "init", self._places.federation, "--name", "heart-consortium", "--server-name", "localhost",
            "--address", "127.0.0.1", "--operator", "alice", "--organisation", "Heart Consortium",
            "--credentials", self._places.credentials,
        )  # fmt: skip
        for path in (self._places.server / "server.toml", self._places.operator / "operator.toml"):
            text = path.read_text()
            for name, port in DEFAULT_PORTS.items():
                text = text.replace(str(port), str(self.ports[name]))
            path.write_text(text)

    def serve(self) -> None:
        """`server run`, until it answers."""
        self._processes.start("server", "server", "run", self._places.server)
        until = time.monotonic() + START_SECONDS
        while not _answers(self.ports["health"]):
            self._processes.check()
            if time.monotonic() > until:
                raise Unavailable("the server does not answer", hint=f"see {self._places.logs / 'server.log'}")
            time.sleep(TICK)

    def run(self, *words: object) -> Any:
        """An operator's verb; its JSON."""
        out = self._processes.command(*words, "--operator", self._places.operator, "-o", "json")
        return json.loads(out)

    def verify(self, log: Path) -> Any:
        """`audit verify` of an exported log against the root document at the desk; its JSON."""
        root = self._places.operator / "root.json"
        return json.loads(self._processes.command("audit", "verify", log, "--root", root, "-o", "json"))

    def rounds(self, outcome: str) -> int:
        """How many rounds have ended so, by the metrics."""
        return totals(self.ports["metrics"], "secureproto_rounds_total", "outcome").get(outcome, 0)

    def follow(self, wanted: int) -> Iterable[int]:
        """The number of completed rounds whenever it has grown, until it is `wanted`. Raises Unavailable."""
        done, since = 0, time.monotonic()
        while done < wanted:
            self._processes.check()
            now = self.rounds("completed")
            if now > done:
                done, since = now, time.monotonic()
                yield done
            elif time.monotonic() - since > 2 * ROUND_SECONDS:
                raise Unavailable(f"no round was completed for {2 * ROUND_SECONDS:.0f} s", hint="see the logs")
            time.sleep(TICK)


class Hospitals:
    """The four sites' commands."""

    def __init__(self, processes: Processes, places: Places) -> None:
        self._processes, self._places = processes, places

    def prepare(self) -> int:
        """Give every hospital its own rows and settings; returns the number of patients."""
        patients = 0
        for name, title in HOSPITALS.items():
            directory = self._places.site(name)
            directory.mkdir(parents=True)
            patients += write_hospital(name, directory / "patients.csv")
            settings = SITE_SETTINGS.format(
                name=title, credentials=self._places.site_credentials(name).resolve(), split=SPLIT_COLUMN
            )
            (directory / "client.toml").write_text(settings)
        return patients

    def enrol(self, desk: Desk) -> None:
        """Invitation, keys made at the site, fingerprint compared, approval, certificate: for each hospital."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(lambda name: self._ask(desk, name), HOSPITALS))
        for name in HOSPITALS:  # refused by the desk itself when the keys that wait have another fingerprint
            desk.run("site", "approve", name, "--fingerprint", self._fingerprint(name))
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(self._enroll, HOSPITALS))

    def start(self) -> None:
        """Start the four agents."""
        for name in HOSPITALS:
            self._processes.start(name, "client", "run", self._places.site(name), "--until-complete")

    def finish(self) -> None:
        """Wait until each has installed the last version and trained on it locally."""
        for name in HOSPITALS:
            self._processes.wait(name, ROUND_SECONDS)

    def status(self, name: str) -> Any:
        """What `client status` says of a hospital's study."""
        out = self._processes.command("client", "status", self._places.site(name), "-o", "json", log=name)
        return json.loads(out)["studies"][0]

    def predict(self, name: str) -> int:
        """Classify a hospital's patients with the model in use; returns how many. The file lies in its directory."""
        directory = self._places.site(name)
        csv = self._processes.command("client", "predict", directory, "--input", directory / "patients.csv", log=name)
        (directory / "predictions.csv").write_text(csv)
        return len(csv.splitlines()) - 1

    def _ask(self, desk: Desk, name: str) -> None:
        desk.run("site", "invite", name, "--out", self._invitation(name))
        self._enroll(name, expect=ApprovalNeeded.exit_code)

    def _enroll(self, name: str, *, expect: int = 0) -> None:
        words = ("client", "enroll", "--invitation", self._invitation(name), "--site-dir", self._places.site(name))
        self._processes.command(*words, log=name, expect=expect)

    def _invitation(self, name: str) -> Path:
        return self._places.out / f"{name}.invite"

    def _fingerprint(self, name: str) -> str:
        """What the site's engineer reads out: the line that `client enroll` showed at the site."""
        lines = (self._places.logs / f"{name}.log").read_text().splitlines()
        return [line.removeprefix("fingerprint: ") for line in lines if line.startswith("fingerprint: ")][-1]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
