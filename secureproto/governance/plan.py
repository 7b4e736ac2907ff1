"""What the rounds of a study release, and the noise with which a plan keeps its budget.

1. `events_of_round(s)`: the events of the `[privacy]` section, round by round or many at once; the two agree.
2. `calibrate`: noise for a plan. At the gate's order RDP adds up, and that of a Gaussian is α·μ²/2: the share of μ²
   that prototypes take is their share of the gate's budget, DP-SGD's μ being that of the Gaussian with the same ε at
   the gate. Metrics cost what they cost; training has the rest.
3. `cost`: what a plan costs, and what each part of it costs alone.

Invariants: a calibrated plan passes its gate, and with noise smaller by 0.1 % it does not; nothing here depends on a
site's data or on its number of records.
Source: PRIVACY.md, "Everything that leaves", "Prototypes" and "Accounting".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, sqrt

from secureproto.errors import BudgetExhausted
from secureproto.privacy.accounting.quote import Quote, quote
from secureproto.privacy.accounting.rdp import ORDERS, Filter, rdp, surcharge
from secureproto.privacy.accounting.tally import tally
from secureproto.privacy.events import (
    MAX_STEPS,
    Composition,
    Gaussian,
    Mechanism,
    SampledGaussian,
    Unprotected,
    merge,
)
from secureproto.study.privacy import MAX_NOISE, PrivacySection

METRICS_STD = 10.0  # on the pair (correct, total), of which one record changes both by 1
METRICS_NOISE = METRICS_STD / sqrt(2)  # the same as a noise multiplier
LEAST_NOISE = 1e-3  # a budget that asks for less buys more than any use of it
PRECISION = 1e-6  # relative, of noise multipliers; found from above

Budgets = dict[float, float]  # RDP by order


def events_of_round(section: PrivacySection, round_number: int) -> tuple[Mechanism, ...]:
    """What a site releases in round `round_number`, from 0 on."""
    training = section.training
    trained: Mechanism = Unprotected()
    if training is not None:
        trained = SampledGaussian(training.noise_multiplier, training.sample_rate, training.steps)
    released = section.prototypes.releases_in(round_number)
    return (trained, Gaussian(section.prototypes.noise_multiplier)) if released else (trained,)


def events_of_rounds(section: PrivacySection, first: int, count: int) -> Composition:
    """What a site releases in `count` rounds from round `first` on, merged; as fast for many rounds as for few."""
    if count <= 0:
        return ()
    every, training = section.prototypes.release_every, section.training
    releases = _multiples_below(first + count, every) - _multiples_below(first, every)
    trained: Composition = ((Unprotected(), count),)
    if training is not None:
        trained = _steps(training.noise_multiplier, training.sample_rate, training.steps * count)
    return (*_releases(section.prototypes.noise_multiplier, releases), *trained)


@dataclass(frozen=True)
class Wish:
    """A plan whose noise is to be found.

    `share_prototypes`: of μ², 0 … 1 without the ends. `metrics_every`: rounds between releases of (correct, total)
    with noise of std 10; None for none.

    Raises:
        ValueError: a number outside its domain.
    """

    epsilon: float
    delta: float
    rounds: int
    sample_rate: float
    steps: int
    release_every: int = 5
    share_prototypes: float = 0.2
    metrics_every: int | None = None

    def __post_init__(self) -> None:
        Filter(self.epsilon, self.delta, 2.0)
        SampledGaussian(1.0, self.sample_rate, self.steps)
        if min(self.rounds, self.release_every, self.metrics_every or 1) < 1:
            raise ValueError("rounds, release_every and metrics_every are 1 or more")
        if not 0 < self.share_prototypes < 1:
            raise ValueError("share_prototypes is over 0 and under 1")

    @property
    def releases(self) -> int:
        """Of prototypes, the first in round 0."""
        return _multiples_below(self.rounds, self.release_every)

    @property
    def metrics(self) -> Composition:
        """What metrics release."""
        if self.metrics_every is None:
            return ()
        return _releases(METRICS_NOISE, _multiples_below(self.rounds, self.metrics_every))

    def training(self, noise_multiplier: float) -> Composition:
        """What training releases with this noise."""
        return _steps(noise_multiplier, self.sample_rate, self.steps * self.rounds)

    def prototypes(self, noise_multiplier: float) -> Composition:
        """What prototypes release with this noise."""
        return _releases(noise_multiplier, self.releases)


@dataclass(frozen=True)
class Part:
    """One kind of release: how it is noised, how often, its share of what the gate counts, its cost alone."""

    name: str
    noise_multiplier: float | None
    releases: int
    share: float
    alone: Quote


@dataclass(frozen=True)
class Plan:
    """A plan with its gate: what it costs, and what its parts cost alone (which adds up to more)."""

    gate: Filter
    parts: tuple[Part, ...]
    total: Quote

    def part(self, name: str) -> Part:
        """The part of that name. Raises KeyError."""
        return {part.name: part for part in self.parts}[name]


def calibrate(wish: Wish, *, records: int | None = None) -> Plan:
    """The plan with the least training noise that keeps the wish's budget, at the gate's best order.

    Raises:
        BudgetExhausted: no noise up to MAX_NOISE keeps it.
    """
    order, training, prototypes = _least_noise(wish)
    gate = Filter(wish.epsilon, wish.delta, order)
    named = (
        ("training", training, wish.training(training)),
        ("prototypes", prototypes, wish.prototypes(prototypes)),
        ("metrics", METRICS_NOISE, wish.metrics),
    )
    return cost(tuple(item for item in named if item[2]), gate, records=records)


def plan_of(section: PrivacySection, rounds: int, *, records: int | None = None) -> Plan:
    """What `rounds` rounds of a study cost, at the gate that is best for them. It may be over the study's budget."""
    whole = events_of_rounds(section, 0, rounds)
    gate = Filter.best(section.max_epsilon_study, section.max_delta, whole)
    training, prototypes = section.training, section.prototypes
    trained = tuple(item for item in whole if not isinstance(item[0], Gaussian))
    noise = None if training is None else training.noise_multiplier
    released = tuple(item for item in whole if isinstance(item[0], Gaussian))
    named = (("training", noise, trained), ("prototypes", prototypes.noise_multiplier, released))
    return cost(named, gate, records=records)


Named = tuple[str, float | None, Composition]


def cost(named: Sequence[Named], gate: Filter, *, records: int | None = None) -> Plan:
    """The quotes of a whole and of its parts, each of them (name, noise multiplier, what it releases)."""
    whole = tuple(item for _, _, composition in named for item in composition)
    spent = rdp(tally(whole), gate.order)
    parts = tuple(
        Part(
            name=name,
            noise_multiplier=noise,
            releases=sum(_count(event) * times for event, times in composition),
            share=_share(rdp(tally(composition), gate.order), spent),
            alone=quote(composition, gate, declared=True, records=records),
        )
        for name, noise, composition in named
    )
    return Plan(gate, parts, quote(whole, gate, declared=True, records=records))


def _share(part: float, whole: float) -> float:
    if whole == inf:
        return 1.0 if part == inf else 0.0
    return part / whole


def _least_noise(wish: Wish) -> tuple[float, float, float]:
    """Order, training noise, prototype noise: that with the least training noise, and what prototypes need there.

    Raises BudgetExhausted.
    """
    metrics = tally(wish.metrics)
    whole = {order: wish.epsilon - surcharge(order, wish.delta) for order in ORDERS}
    budgets = {order: (1 - wish.share_prototypes) * whole[order] - rdp(metrics, order) for order in ORDERS}
    budgets = {order: budget for order, budget in budgets.items() if budget > 0}

    def kept(noise: float, orders: Budgets) -> Budgets:
        spent = tally(wish.training(noise))
        return {order: budget for order, budget in orders.items() if rdp(spent, order) <= budget}

    found, fitting = _least(budgets, kept)
    for order in fitting:
        mu_squared = 2 * wish.share_prototypes * whole[order] / order
        prototypes = max(LEAST_NOISE, sqrt(wish.releases / mu_squared) * (1 + PRECISION))
        if prototypes <= MAX_NOISE:
            return order, found, prototypes
    raise BudgetExhausted(
        f"no noise keeps epsilon {wish.epsilon:g} at delta {wish.delta:g} over {wish.rounds} rounds",
        reasons=("max_epsilon_study",),
        hint="allow a larger epsilon, or plan fewer rounds or rarer metrics",
    )


def _least(orders: Budgets, kept: Callable[[float, Budgets], Budgets]) -> tuple[float, Budgets]:
    """The least noise at which some order keeps its budget, from above, and the orders that do; none: no order.

    More noise never costs more, so an order that fails where another one holds is not looked at again.
    """
    too_little, enough, best = LEAST_NOISE, MAX_NOISE, kept(MAX_NOISE, orders)
    if best and (cheap := kept(LEAST_NOISE, best)):
        return LEAST_NOISE, cheap
    while best and enough > too_little * (1 + PRECISION):
        middle = sqrt(enough * too_little)
        if found := kept(middle, best):
            enough, best = middle, found
        else:
            too_little = middle
    return enough, best


def _multiples_below(end: int, step: int) -> int:
    """How many of 0, step, 2·step, … are below `end`."""
    return -(-end // step)


def _steps(noise_multiplier: float, sample_rate: float, steps: int) -> Composition:
    whole, rest = divmod(steps, MAX_STEPS)
    sizes = [MAX_STEPS] * whole + ([rest] if rest else [])
    return merge(SampledGaussian(noise_multiplier, sample_rate, size) for size in sizes)


def _releases(noise_multiplier: float, times: int) -> Composition:
    return ((Gaussian(noise_multiplier), times),) if times else ()


def _count(event: Mechanism) -> int:
    return event.steps if isinstance(event, SampledGaussian) else 1
