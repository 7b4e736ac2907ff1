"""An ε with everything that has to stand beside it: both figures, named, and what they mean in words.

Invariants: no figure without unit, adjacency, δ, sampling assumption and accountant; a plan has its PLD figure where
there is one and RDP's otherwise, and spending that was not declared beforehand has the filter's, never another.
Source: PRIVACY.md, "Definition" and "Accounting".
"""

from dataclasses import dataclass
from importlib.metadata import version
from math import exp, inf, isinf, log

from secureproto.privacy.accounting import pld, rdp
from secureproto.privacy.accounting.rdp import Filter
from secureproto.privacy.accounting.tally import tally
from secureproto.privacy.events import Composition

ADJACENCY = "add_remove"
SAMPLING = "poisson"
MOST_DELTA = 0.1  # of one over the number of records: beyond it δ alone allows to publish every tenth record
LARGEST_NUMBER = 1e6  # that is written out; larger factors are powers of ten


@dataclass(frozen=True)
class Quote:
    """What a composition costs a record.

    `filter_epsilon`: at the gate's order, valid whatever was chosen when; it decides. `rdp_epsilon`, at the best
    order, and `pld_epsilon` (None: not to be had) hold for a composition `declared` before its first event.
    `records`: a public estimate, never a count of a site.
    """

    filter_epsilon: float
    filter_order: float
    rdp_epsilon: float
    rdp_order: float
    pld_epsilon: float | None
    pld_interval: float | None
    delta: float
    declared: bool
    records: int | None = None
    unit: str = "record"
    adjacency: str = ADJACENCY
    sampling: str = SAMPLING
    accountant: str = f"dp-accounting {version('dp-accounting')}"

    @property
    def epsilon(self) -> float:
        """The figure to print first: PLD's, else RDP's, of a declared composition; the filter's of any other."""
        if not self.declared:
            return self.filter_epsilon
        return self.rdp_epsilon if self.pld_epsilon is None else self.pld_epsilon

    @property
    def method(self) -> str:
        """By what `epsilon` was found."""
        if not self.declared:
            return f"RDP filter, order {self.filter_order:g}"
        if self.pld_interval is None:
            return f"RDP, best order {self.rdp_order:g}"
        return f"PLD, discretisation {self.pld_interval:g}"

    @property
    def n_delta(self) -> float | None:
        """n·δ: how many records the exception may touch, on average; None where no number was given."""
        return None if self.records is None else self.records * self.delta

    @property
    def delta_too_large(self) -> bool:
        """Whether δ is over 0.1/n; False where no number was given."""
        return self.records is not None and self.delta > MOST_DELTA / self.records

    @property
    def red(self) -> bool:
        """Whether it is to be shown red: δ is too large, or nothing is promised at all."""
        return self.delta_too_large or isinf(self.epsilon)

    @property
    def words(self) -> str:
        """What the figure promises, for a reader who knows no ε."""
        if isinf(self.epsilon):
            return f"no promise: what one {self.unit} holds may be told from what was released"
        return (
            f"one {self.unit}'s data changes the odds of any outcome by at most a factor of {factor(self.epsilon)}, "
            f"except with probability {self.delta:g}"
        )

    def as_json(self) -> dict[str, object]:
        """Everything above as plain values; an infinite figure is the text "infinite", which JSON can hold."""
        return {
            "epsilon": plain(self.epsilon),
            "method": self.method,
            "delta": self.delta,
            "unit": self.unit,
            "adjacency": self.adjacency,
            "sampling": self.sampling,
            "accountant": self.accountant,
            "filter_epsilon": plain(self.filter_epsilon),
            "filter_order": self.filter_order,
            "rdp_epsilon": plain(self.rdp_epsilon),
            "rdp_order": self.rdp_order,
            "pld_epsilon": self.pld_epsilon,
            "pld_interval": self.pld_interval,
            "declared": self.declared,
            "records": self.records,
            "n_delta": self.n_delta,
            "red": self.red,
            "words": self.words,
        }


def quote(
    spent: Composition, gate: Filter, *, declared: bool, records: int | None = None, unit: str = "record"
) -> Quote:
    """The figures of a composition at the gate's δ. `declared`: it was fixed as a whole before its first event.

    Raises:
        IntegrityBroken: the PLD accountant states less than a plain test achieves.
    """
    total = tally(spent)
    best, order = rdp.epsilon(total, gate.delta)
    found = pld.figure(total, gate.delta) if declared else None
    return Quote(
        filter_epsilon=gate.epsilon(spent),
        filter_order=gate.order,
        rdp_epsilon=best,
        rdp_order=order,
        pld_epsilon=None if found is None else found.epsilon,
        pld_interval=None if found is None else found.interval,
        delta=gate.delta,
        declared=declared,
        records=records,
        unit=unit,
    )


def factor(epsilon: float) -> str:
    """e^ε to three digits as one reads it: 1.11, 2,980, or a power of ten."""
    if epsilon > log(LARGEST_NUMBER):
        exponent = epsilon / log(10)
        return "infinity" if exponent == inf else f"10^{exponent:.1f}" if exponent < 100 else f"10^{exponent:,.0f}"
    value = exp(epsilon)
    return f"{value:.3g}" if value < 1000 else f"{float(f'{value:.3g}'):,.0f}"


def plain(figure: float) -> float | str:
    """A figure as JSON can hold it."""
    return "infinite" if isinf(figure) else figure
