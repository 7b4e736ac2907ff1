"""Where a demo begins: a directory of its own, one torch thread, the host's clock."""

from pathlib import Path

import torch

from secureproto.clock import SystemClock, utc_text
from secureproto.errors import Conflict
from secureproto_client.demo.play import Play, Played, Say
from secureproto_client.demo.stage import Places


def play(out: Path | None, say: Say) -> Played:
    """Run the demo below `out`.

    Raises:
        Conflict: the directory is not empty. What `Play.run` raises.
    """
    clock = SystemClock()
    directory = out or Path("demo-out") / utc_text(clock.now()).replace(":", "")
    if directory.exists() and any(directory.iterdir()):
        raise Conflict(f"{directory} is not empty", hint="name a new directory: secureproto demo --out DIR")
    torch.set_num_threads(1)  # the models are small: two threads on few cores wait for each other
    return Play(Places(directory.resolve()), clock, say).run()
