"""The demo's processes: each is the installed program itself, called as an operator or an engineer would call it.

Invariants: every process ends with the demo, however the demo ends; what a process says goes to a log file of its
own; a command that fails fails the demo, with the command's own words.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from secureproto.errors import Unavailable

STOP_SECONDS = 15.0  # an agent in the middle of a training ends within a second; the rest is slack
COMMAND_SECONDS = 120.0  # torch alone takes half a minute to load from a cold disk


class Processes:
    """Runs `secureproto …` commands, and keeps those that stay."""

    def __init__(self, logs: Path, credentials: Path) -> None:
        self._logs = logs
        self._environment = {
            **os.environ,
            "CREDENTIALS_DIRECTORY": str(credentials),
            # two torch threads on few cores wait for each other; one a process is faster
            "OMP_NUM_THREADS": "1",
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in reversed(list(self._running)):
            self.stop(name)
        for file in self._files:
            file.close()

    def command(self, *arguments: object, log: str = "operator", expect: int = 0) -> str:
        """Run one command to its end, which has the exit code `expect`, and return its stdout.

        Raises:
            Unavailable: it failed or took too long; the message is its own error line.
        """
        words = [str(word) for word in arguments]
        process = self._popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Unavailable(f"`secureproto {' '.join(words)}` took over {COMMAND_SECONDS:.0f} s") from None
        with self._log(log) as file:
            file.write(f"$ secureproto {' '.join(words)}\n".encode() + err)
        if process.returncode != expect:
            raise Unavailable(f"`secureproto {' '.join(words[:3])}`: {_last_error(err.decode(errors='replace'))}")
        return out.decode()

    def start(self, name: str, *arguments: object) -> None:
        """Start a command that stays, as `name`."""
        file = self._log(name)
        self._files.append(file)
        self._running[name] = self._popen([str(word) for word in arguments], stdout=file, stderr=file)

    def wait(self, name: str, seconds: float) -> None:
        """Wait until `name` has ended by itself.

        Raises:
            Unavailable: it failed, or still runs after so many seconds.
        """
        try:
            code = self._running[name].wait(seconds)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{name} still runs after {seconds:.0f} s", hint=self._look(name)) from None
        del self._running[name]
        if code:
            raise Unavailable(f"{name} ended with exit code {code}", hint=self._look(name))

    def check(self) -> None:
        """Raise Unavailable when a process that should run has failed."""
        for name, process in self._running.items():
            if process.poll() not in (None, 0):
                raise Unavailable(f"{name} ended with exit code {process.returncode}", hint=self._look(name))

    def stop(self, name: str) -> None:
        """Ask a process to end, and see to it that it does."""
        process = self._running.pop(name)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _popen(
        self, words: list[str], *, stdout: int | IO[bytes], stderr: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-P", "-m", "secureproto.cli", *words]  # -P: what is installed, not what lies here
        return subprocess.Popen(
            program, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=self._environment
        )

    def _log(self, name: str) -> IO[bytes]:
        return (self._logs / f"{name}.log").open("ab")

    def _look(self, name: str) -> str:
        return f"see {self._logs / name}.log"


def _last_error(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("error: ")]
    return lines[-1].removeprefix("error: ") if lines else "failed without a word"
