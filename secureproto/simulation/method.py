"""What a federated algorithm is here: four pure functions over arrays, so that any engine can run any of them.

    begin     what the server holds before the first round
    use       the model that a site would use, as it received it
    train     a site's part in a round: records and what it received → what it sends and what it keeps
    combine   the server's part: what the sites sent → what it publishes next

Invariants: nothing but `Update.sent` goes from a site to the server, and nothing but `Combined` back (a `Central`
method is there to show what that costs); equal
arguments give equal numbers, in whatever process; the sites' uploads come in the order of their names and one by
one, so a method that needs no more than a sum holds no more than a sum.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from secureproto.learning.arrays import Arrays
from secureproto.learning.dataset import Records
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.model import Model
from secureproto.learning.training import TrainingSummary
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile

Predictor = Callable[[NDArray[np.float32]], NDArray[np.float64]]  # (n, …) → (n, C) probabilities


@dataclass(frozen=True, eq=False)
class Visit:
    """What a site has at the start of a round: `shared` went to all, `personal` to it alone, `kept` is its own.

    `kept` is empty before a site's first round.
    """

    site: str
    round_number: int
    shared: ArrayMap
    personal: ArrayMap
    kept: ArrayMap


class Sent(NamedTuple):
    """What a site sends: arrays, its number of training records, and for which round."""

    arrays: Arrays
    records: int
    round_number: int = 0

    @property
    def size(self) -> int:
        """Bytes of the arrays, as the wire carries them."""
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(frozen=True, eq=False)
class Update:
    """The outcome of a site's round. `predictor` is the model it has after local training; it may lean on the model
    that was trained, so it is used before that is loaded again."""

    sent: Sent
    predictor: Predictor
    kept: Arrays = field(default_factory=dict)
    summary: TrainingSummary | None = None


@dataclass(frozen=True, eq=False)
class Combined:
    """What the server publishes. `personal`: by site, of this round's participants; others keep what they have.

    `relation`: (m, m), how much of each participant's head (in the order of their names) a participant got.
    `loss`: the sites' mean loss, where the study's stopping rule asks for it.
    """

    shared: ArrayMap
    personal: Mapping[str, ArrayMap] = field(default_factory=dict)
    relation: NDArray[np.float64] | None = None
    loss: float | None = None


def unchanged(shared: ArrayMap, updates: Iterable[tuple[str, Sent]]) -> Combined:
    """A version that stays as it was. The uploads are taken all the same: sites are trained as they are taken."""
    for _ in updates:
        pass
    return Combined(shared)


class Method(Protocol):
    """One federated algorithm with its hyper-parameters. A frozen dataclass whose first field is the study.

    `title`: for tables. Further fields are its own hyper-parameters, each with a default, as `--methods
    name:field=value` sets them; `grid` are the values that tuning tries.
    """

    title: ClassVar[str]
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]]

    @property
    def study(self) -> StudyFile: ...

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """(shared, personal of every site) before round 0, from the study's first weights in `model`."""
        ...

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """The model as received, loaded into `model`. `data` is for what needs no model (majority class)."""
        ...

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """The site's part in the round; trains `model` in place, on `data.train` only.

        Raises:
            Diverged: a loss is no longer finite, or beyond all bounds.
        """
        ...

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """The server's part. `sites`: this round's participants, sorted; `updates` come in that order, once."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """A method whose sites choose, by their training records alone, which model to use after the last round."""

    def choose(self, model: Model, data: SiteData, visit: Visit) -> tuple[str, Predictor]:
        """(name of the choice, the model in use). Nothing of it is sent."""
        ...


@runtime_checkable
class Central(Protocol):
    """A method that is not federated: it learns where the records of all sites lie together. So all sites are in
    every round, whatever share of them the study invites."""

    def learn(self, model: Model, shared: ArrayMap, records: Sequence[Records], round_number: int) -> Combined:
        """The next version, from the training records of all sites in the order of their names. `model` is any of
        the study's.

        Raises:
            Diverged: a loss is no longer finite, or beyond all bounds.
        """
        ...
