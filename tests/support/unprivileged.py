"""Runs commands as a user without rights: the modes of files count for them also where the tests are root's."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

PROGRAM = """
import contextlib, io, json, os, sys
from secureproto.cli.root import run
warm, commands = json.load(sys.stdin)
def told(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return [code, out.getvalue(), err.getvalue()]
for arguments in warm:
    told(arguments)
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
json.dump([told(arguments) for arguments in commands], sys.stdout)
"""


class Told(NamedTuple):
    """What a command ended with and said."""

    code: int
    out: str
    err: str


Commands = Sequence[Sequence[object]]


def run_as_nobody(commands: Commands, *, warm: Commands = ()) -> list[Told]:
    """Each command of `secureproto`, one after the other in one process. `warm`: those that are run before, with the
    rights of the tests: what they load need not be readable to everybody."""
    texts = [[[str(each) for each in arguments] for arguments in part] for part in (warm, commands)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": "/nonexistent"},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return [Told(*each) for each in json.loads(done.stdout)]


@contextmanager
def open_to_all() -> Iterator[Path]:
    """A directory that every user may enter: those of pytest are its user's alone."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
