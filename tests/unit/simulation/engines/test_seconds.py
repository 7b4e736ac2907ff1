"""The seconds of a training are its own: what torch loads once in a process is loaded before the clock runs."""

import os
import subprocess
import sys

import torch

from secureproto.learning.warming import warm_up
from support.tree import ROOT

ONE_RUN = """
import sys
from support.dying_run import SITES, method
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.run import Run
from secureproto.simulation.store import RunStore
engine, store = InProcess(), RunStore()
before = set(sys.modules)
Run(method("local"), SITES, engine, store).go()
store.close()
print(*sorted(set(sys.modules) - before))
"""


def test_the_first_training_of_a_process_loads_nothing() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, "-c", ONE_RUN], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    )
    assert done.stdout.split() == []


def test_warming_up_draws_nothing() -> None:
    before = torch.get_rng_state()
    warm_up.__wrapped__()
    assert torch.equal(torch.get_rng_state(), before)
