"""The README's commands, as a reader would type them: every ```bash block, one after the other, in one shell."""

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
FINGERPRINT = re.compile(r"^fingerprint: ([0-9a-f]{64})$", re.MULTILINE)
BLOCK_SECONDS = 240


def blocks(readme: Path) -> list[str]:
    """The commands, block by block."""
    return BLOCK.findall(readme.read_text(encoding="utf-8"))


class Shell:
    """One bash that lives through all blocks, so that directories, variables and jobs stay."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, cwd=directory, env=dict(environment), text=True,
            start_new_session=True,
        )  # fmt: skip
        self._count = 0

    def run(self, block: str) -> tuple[int, str]:
        """Run a block; exit code of its first failing command (or 0), and all that it printed.

        A fingerprint that it printed is $FINGERPRINT from then on: the telephone call.
        """
        self._count += 1
        log, done = self._directory / f"block-{self._count}.log", self._directory / f"block-{self._count}.rc"
        (self._directory / "block.sh").write_text(_stopping_at_failure(block))
        assert self._bash.stdin
        self._bash.stdin.write(f". ./block.sh >{log} 2>&1 </dev/null; echo $? >{done}.part; mv {done}.part {done}\n")
        self._bash.stdin.flush()
        _wait_for(done)
        text = log.read_text()
        for fingerprint in FINGERPRINT.findall(text):
            self._bash.stdin.write(f"export FINGERPRINT={shlex.quote(fingerprint)}\n")
        return int(done.read_text()), text

    def close(self) -> None:
        """End the shell and every job it left."""
        assert self._bash.stdin
        self._bash.stdin.write("kill $(jobs -p); wait; exit\n")
        self._bash.stdin.close()
        self._bash.wait(30)


def _stopping_at_failure(block: str) -> str:
    """A sourced file cannot use `set -e` without ending the shell: a function that returns early can."""
    return f"block() {{\n trap 'code=$?; trap - ERR; return $code' ERR\n{block}\n trap - ERR\n}}\nset -E\nblock\n"


def _wait_for(path: Path) -> None:
    import time

    until = time.monotonic() + BLOCK_SECONDS
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"a block of the README did not end within {BLOCK_SECONDS} s")
        time.sleep(0.1)
