"""The installed program, which ends by SIGKILL right after one move of the journal: `DIE_AFTER=seal`."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from secureproto.cli.root import run
from secureproto_client.journal import Journal


def deadly(move: Callable[..., Any]) -> Callable[..., Any]:
    """The move, and then the end."""

    def moved(*values: object) -> None:
        move(*values)
        os.kill(os.getpid(), signal.SIGKILL)

    return moved


if __name__ == "__main__":
    name = os.environ["DIE_AFTER"]
    setattr(Journal, name, deadly(getattr(Journal, name)))
    sys.exit(run(sys.argv[1:]))
