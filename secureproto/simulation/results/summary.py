"""What a summary of an experiment holds: for each method and point, mean over sites, worst site and spread.

Invariant: what a number leaves out (runs that did not end, scores that are not defined) stands beside it.
Source: METHOD "What is worth knowing" (what is reported, at which points).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from secureproto.simulation.history import method_name
from secureproto.simulation.results.comparing import Comparison
from secureproto.simulation.results.reported import Rule
from secureproto.simulation.statistics import Measure

BOUND = "pooled"  # the method that is not federated: shown, and never ranked


@dataclass(frozen=True)
class Estimate:
    """Mean over `n` seeds and their sample standard deviation (n − 1); None with one seed."""

    mean: float
    deviation: float | None
    n: int


@dataclass(frozen=True)
class OverSites:
    """A measure over the sites that have it in every seed, each number as its estimate over seeds.

    `spread`: standard deviation over the sites that there are (divided by their number). `undefined`: the sites
    where the measure was not defined in at least one seed; they are left out. `defined`: how many of the `of` sites
    have it in every seed.
    """

    mean: Estimate
    worst: Estimate
    spread: Estimate
    undefined: tuple[str, ...]
    defined: int
    of: int


@dataclass(frozen=True)
class AtPoint:
    """A method at a point. `versions`: the reported one by seed. `pooled`: accuracy over all test records.

    `measures` lacks one that no site has in every seed. `sites[site][measure]`; `records`: test records by site.
    """

    versions: Mapping[int, int]
    measures: Mapping[Measure, OverSites]
    pooled: Estimate
    sites: Mapping[str, Mapping[Measure, Estimate]]
    records: Mapping[str, int]


@dataclass(frozen=True)
class Target:
    """How soon the mean accuracy as received (of FedAvg + fine-tuning, which has none, after local training) reached
    the target: `rounds`, median over all runs, None where half of them or more never did; `reached` of `runs` did."""

    rounds: float | None
    reached: int
    runs: int


@dataclass(frozen=True)
class MethodSummary:
    """One method. `seeds`: of the runs that ended, the only ones in its numbers.

    `bytes_sent`: of one site in the whole run, mean over sites. `seconds`: of all rounds of a run, without the scores
    and choices after the last. `choices`: how often sites chose what, over seeds. `target` is None where none was
    asked for.
    """

    label: str
    title: str
    seeds: tuple[int, ...]
    points: Mapping[str, AtPoint]
    bytes_sent: Estimate | None
    seconds: Estimate | None
    choices: Mapping[str, int]
    target: Target | None

    @property
    def is_bound(self) -> bool:
        """Whether it is there to hold the others against, and not one of them."""
        return method_name(self.label) == BOUND


@dataclass(frozen=True)
class Failure:
    """A run that did not end: its last recorded round (None: not one), and why."""

    method: str
    seed: int
    last_round: int | None
    reason: str

    @property
    def derived(self) -> bool:
        """Whether it is FedAvg's, read as that of FedAvg + fine-tuning: one run, told once."""
        return method_name(self.method) == "fedavg-ft"


@dataclass(frozen=True)
class Summary:
    """All of it. `reference`: the label that the methods are compared with; None where it is not among them.

    `target`, `redrawn` (n_test/n_train of splits drawn anew for each seed): as asked for.
    """

    rule: Rule
    reference: str | None
    target: float | None
    redrawn: float | None
    methods: tuple[MethodSummary, ...]
    failures: tuple[Failure, ...]
    to_reference: tuple[Comparison, ...]
    of_best: tuple[Comparison, ...]
