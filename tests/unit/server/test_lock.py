"""The lock on the state directory, among real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from secureproto.errors import Conflict, Misconfigured
from secureproto_server.lock import StateLock

HOLD = """
import sys, time
from pathlib import Path
from secureproto_server.lock import StateLock
with StateLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_told_who_has_it_until_that_one_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Conflict, match=f"in use by process {holder.pid}$"), StateLock(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with StateLock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_it_can_be_taken_again_after_its_block(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    with lock, pytest.raises(Conflict), StateLock(tmp_path):
        pass
    with lock:
        pass


def test_a_missing_directory_is_misconfigured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot open"), StateLock(tmp_path / "nowhere"):
        pass
