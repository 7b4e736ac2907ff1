"""Loads, by short runs in memory, what a run loads when it trains: for processes that are forked from this one."""

from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.run import Run
from secureproto.simulation.store import RunStore
from support.dying_run import METHODS, SITES, method

for name in METHODS:
    store = RunStore()
    Run(method(name), SITES, InProcess(), store).go()
    store.close()
