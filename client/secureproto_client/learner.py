"""What a site computes on its own records, behind one seam: the protocol's procedure knows arrays only.

What an implementation owes: the records are read once; nothing that it computes leaves but `Trained.update`; scores
and losses are the site's own. No torch here: verbs that do not compute must start quickly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from secureproto.data.folds import Folding
from secureproto.errors import Misconfigured
from secureproto_client.models import Arrays, Origin, StoredModel

Scored = dict[str, float | int | None]


class ModelUnfit(Misconfigured):
    """The study's model cannot be built here, or is another than the operator signed."""


@dataclass(frozen=True)
class Trained:
    """The outcome of local training. `update` is in the upload's layout; `shared` and `head` in a version's."""

    update: Arrays
    shared: Arrays
    head: Arrays


@dataclass(frozen=True)
class Chosen:
    """What a site is to use of a version, in the layout of a version. All of it is the site's own.

    `losses`: mean log loss by candidate, on `judged` training records of `classes` classes; each record judged models
    that were fitted without it.
    """

    origin: Origin
    losses: Mapping[str, float]
    judged: int
    classes: int
    shared: Arrays
    head: Arrays


class Counts(NamedTuple):
    """How many records are trained on, held out, and take no part. The site's own numbers: they stay here."""

    training: int
    held_out: int
    left_out: int


class Learner(Protocol):
    """A site's own computing for one study."""

    def train(self, base: StoredModel, round_number: int) -> Trained:
        """Train from a version on the site's records, for a round.

        Raises:
            ModelUnfit: the model cannot be built here.
            Misconfigured: the records cannot be used.
            PolicyDenied: code that the study or the settings name is not allowed here.
        """
        ...

    def fine_tune(self, base: StoredModel, epochs: int | None) -> Trained:
        """Train on after the study's last version: for `epochs`, or for as long as in a round. Raises as `train`."""
        ...

    def choose(self, base: StoredModel, epochs: int | None, longer: int, folding: Folding) -> Chosen:
        """Choose among the version as received, an own head, their blend, what `fine_tune` makes of it, what that
        makes of it done `longer` times (not with 0), and halfway to the last, by the training records alone. With 0
        epochs among the first three. Raises as `train`."""
        ...

    def count(self) -> Counts:
        """How many records there are. Raises Misconfigured."""
        ...

    def score(self, shared: Arrays, head: Arrays) -> Scored | None:
        """Scores on the held-out records; None when nothing is held out. They stay at the site."""
        ...
