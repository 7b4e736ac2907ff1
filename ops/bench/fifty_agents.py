"""A round of 50 site agents over loopback: seconds, and where they go.

`python ops/bench/fifty_agents.py [--sites 50] [--processes 5] [--rounds 8]` prints JSON and writes
ops/bench/results/fifty_agents.json. Exits with 1 when a round is not completed with every site's upload. There is no
figure to reach: it shows what a round costs on one small machine, so that a change that makes it dearer is seen.

A real server process (four ports, TLS 1.3, SQLite) and the real client's agents, each with its own directory, keys,
certificate, journal and connection, ten threads a process. Sites are enrolled for real before the clock runs
(invitation, keys, fingerprint, approval, certificate, root documents), in this process. The study is the demo's
(`mlp`, 2 epochs) and each site has the rows of one of its four hospitals, so that training is small and what is
measured is the protocol. All share the machine's cores: wall times of one site's steps hold waiting for the others;
CPU seconds do not. The first round also reads records and loads code; medians are over the rounds after it.

`wall`: where the seconds of a round go, in the order in which they pass. `site_step`: one agent's steps in a round.
`cpu_per_round`: all sites together, the server, and of it the parts. `commits_per_round`: transactions of the server
that wrote something (each a flush to the disk), those that only read, and a site's own.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fifty_agents_report import Record, reckon

from secureproto.clock import SystemClock
from secureproto.errors import ApprovalNeeded
from secureproto.simulation.heart.hospitals import HOSPITALS, SPLIT_COLUMN, study_path, write_hospital
from secureproto_client import running
from secureproto_client.paths import SitePaths
from secureproto_server import invitations, studying
from secureproto_server.desk import Desk
from secureproto_server.founding import Charter, found

HERE = Path(__file__).parent
RESULT = HERE / "results" / "fifty_agents.json"
WAIT = 600.0
SETTINGS = """credentials = "{credentials}"
[data]
kind = "csv"
path = "patients.csv"
split_column = "{split}"
[studies.heart]
accept = true
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def main() -> int:
    """Enrol, run, reckon, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, default=50)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fifty-agents-") as scratch:
        stage = Stage(Path(scratch), arguments.sites)
        try:
            enrolment = stage.play(arguments.processes, arguments.rounds)
        except AssertionError:
            for log in sorted(stage.place.glob("*.log")):
                say(f"{log.name}:\n" + "\n".join(log.read_text().splitlines()[-20:]))
            raise
        record = Record.read(stage.place, arguments.processes)
    report: dict[str, Any] = {
        "bench": "fifty_agents",
        "sites": arguments.sites,
        "processes": arguments.processes,
        "enrolment_seconds_per_site": round(enrolment / arguments.sites, 3),
        **reckon(record, arguments.sites),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
    }
    report["passed"] = report["rounds"] == arguments.rounds and report["uploads_per_round"] == arguments.sites
    text = json.dumps(report, indent=2)
    print(text)
    RESULT.write_text(text + "\n", encoding="utf-8")
    return 0 if report["passed"] else 1


@dataclass
class Stage:
    """The federation below `place`."""

    place: Path
    count: int

    def play(self, processes: int, rounds: int) -> float:
        """All of it, to the end of the study; returns how long the enrolments took."""
        charter = Charter("bench", ("localhost", "127.0.0.1"), "alice", "Bench")
        found(self.place / "federation", charter, self.place / "keys", SystemClock())
        directories = [self._site(number) for number in range(self.count)]
        with self._process("fifty_agents_server.py", self.place / "federation/server", "server.json") as server:
            desk = self._desk(server)
            begun = time.monotonic()
            for directory in directories:
                self._enrol(desk, directory)
            enrolment = time.monotonic() - begun
            say(f"{self.count} sites enrolled in {enrolment:.1f} s")
            studying.send(desk, studying.prepare(desk, self._study(rounds), allowed_factories=()))
            self._run_sites(desk, directories, processes, rounds)
        return enrolment

    def _run_sites(self, desk: Desk, directories: list[Path], processes: int, rounds: int) -> None:
        groups = [directories[number::processes] for number in range(processes)]
        names = [f"sites-{number}.json" for number in range(processes)]
        started = [
            self._start("fifty_agents_sites.py", self.place / n, *g) for n, g in zip(names, groups, strict=True)
        ]
        try:
            until(lambda: all((d / "state/models/heart/0").is_dir() for d in directories), started)
            time.sleep(2)  # the last of them asks again, and waits
            say("every site has the first version; rounds begin")
            desk.post("studies/heart/rounds", {"rounds": rounds}, meaning="open rounds")
            until(lambda: all(process.poll() is not None for process in started), started)
        finally:
            for process in started:
                process.terminate()
                process.wait()

    def _site(self, number: int) -> Path:
        directory = self.place / "sites" / f"site-{number:02d}"
        directory.mkdir(parents=True)
        write_hospital(list(HOSPITALS)[number % len(HOSPITALS)], directory / "patients.csv")
        settings = SETTINGS.format(credentials=self.place / "keys", split=SPLIT_COLUMN)
        (directory / "client.toml").write_text(settings, encoding="utf-8")
        return directory

    def _enrol(self, desk: Desk, directory: Path) -> None:
        """As the README has it, the fingerprint read out by the site compared at the desk."""
        said: list[str] = []
        invitation, paths = directory / "site.invite", SitePaths(directory)
        invitations.invite(desk, site=directory.name, hours=1, out=invitation)
        try:
            running.enroll(paths, invitation, credentials=None, wait=False, say=said.append)
        except ApprovalNeeded:
            [fingerprint] = [line.split()[-1] for line in said if line.startswith("fingerprint: ")]
            invitations.approve(desk, invitations.waiting(desk, directory.name, fingerprint))
        running.enroll(paths, invitation, credentials=None, wait=False, say=said.append)

    def _study(self, rounds: int) -> Path:
        text = study_path().read_text(encoding="utf-8")
        for old, new in (
            ("total = 30", f"total = {rounds}"),
            ("quorum = 3", f"quorum = {self.count}"),
            ('deadline = "60s"', 'deadline = "10m"'),
        ):
            assert old in text, old
            text = text.replace(old, new)
        path = self.place / "study.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def _desk(self, server: subprocess.Popen[bytes]) -> Desk:
        file = self.place / "federation/server/state/ports.json"
        until(file.exists, [server])
        desk = Desk(self.place / "federation/operator")
        url = f"https://127.0.0.1:{json.loads(file.read_text())['admin']}"
        desk.settings = desk.settings.model_copy(update={"admin_url": url})
        return desk

    @contextmanager
    def _process(self, program: str, directory: Path, record: str) -> Iterator[subprocess.Popen[bytes]]:
        process = self._start(program, directory, self.place / record)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(WAIT)

    def _start(self, program: str, *arguments: object) -> subprocess.Popen[bytes]:
        ports = {f"SECUREPROTO_SERVER_{name}__PORT": "0" for name in ("SITE", "ADMIN", "METRICS", "HEALTH")}
        with (self.place / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(HERE / program), *map(str, arguments)],
                env={**os.environ, **ports, **ONE_THREAD},
                stdout=log,
                stderr=log,
            )


def until(done: Callable[[], bool], processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Wait; a process that fails ends the bench, and its log is shown."""
    end = time.monotonic() + WAIT
    while not done():
        assert not any(process.poll() for process in processes), "a process failed"
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.1)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
