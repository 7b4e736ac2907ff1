"""What each site has of an algorithm, for who needs no directory and no resuming: the demo, and tests."""

from collections.abc import Mapping
from dataclasses import dataclass

from secureproto.errors import Misconfigured
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.engines.seam import Sites
from secureproto.simulation.history import RECEIVED, TEST, TUNED, Measured
from secureproto.simulation.method import Method
from secureproto.simulation.run import Run, RunOptions, history
from secureproto.simulation.store import RunStore


@dataclass(frozen=True)
class Outcome:
    """Scores of one site on its test records at the two points that are reported.

    `received`: after the last round, as the site has it before training again. `tuned`: after one more local
    training. Equal where an algorithm does not train.
    """

    received: Measured
    tuned: Measured


def outcomes(method: Method, sites: Sites) -> Mapping[str, Outcome]:
    """Scores by site, after the last round of the method's study.

    Raises:
        Misconfigured: the model cannot be built, or diverges.
        PolicyDenied: the model's factory is not allowed.
    """
    store, never = RunStore(), method.study.rounds.total + 1
    try:
        Run(method, sites, InProcess(), store, RunOptions(evaluate_every=never, choice=False)).go()
        found = history(store, method="", title=method.title, seed=method.study.model.seed)
    finally:
        store.close()
    if found.failure is not None:
        raise Misconfigured(f"{method.title}: {found.failure}")
    last = found.rounds[-1].sites
    return {site: Outcome(done.points[RECEIVED][TEST], done.points[TUNED][TEST]) for site, done in last.items()}
