"""What a command's streams can be: without ±, or closed."""

import os
import subprocess
import sys

import pytest

LIST = [sys.executable, "-m", "secureproto.cli", "simulate", "list"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_cannot_show_a_sign_gets_another(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(LIST, env=environment, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"protoaligned" in done.stdout


def test_a_command_whose_output_nobody_wants_runs() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *LIST], stderr=subprocess.PIPE, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
