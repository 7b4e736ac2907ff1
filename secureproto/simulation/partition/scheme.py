"""What all schemes share: the ground they divide, what is asked of a division, and how their texts are read.

A scheme is a frozen dataclass whose fields are its parameters in the order of its text, `name:first:second`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import isfinite
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secureproto.errors import Misconfigured
from secureproto.simulation.population import Rows
from secureproto.simulation.shift import Shift


@dataclass(frozen=True, eq=False)
class Ground:
    """What is divided. `rows`: (n,) row numbers in the pool; `labels`: (n,) their classes, indices into `classes`;
    `shape`: of one record; `natural`: (n,) the sites the records came with, or None."""

    rows: Rows
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    natural: NDArray[np.str_] | None = None

    def counts(self) -> NDArray[np.int64]:
        """(C,) records of each class."""
        return np.bincount(self.labels, minlength=len(self.classes)).astype(np.int64)

    def named(self, index: int) -> str:
        """A class as messages name it."""
        return f"class {index} ({self.classes[index]})"


@dataclass(frozen=True)
class Demand:
    """What a division must give. `sites`: how many, None where not said; `least`: records a site at least has;
    `per_site`: training records of each site, where a number was asked for, and `records`: the records it needs for
    them and its test part; `per_class`: records a holder has of a class, where the scheme says who holds a class."""

    sites: int | None
    least: int = 1
    per_site: int | None = None
    records: int | None = None
    per_class: int = 1


@dataclass(frozen=True)
class Parameter:
    """One parameter of a scheme, as it is written in its text: a whole number, or any number."""

    name: str
    low: float
    high: float | None = None
    whole: bool = False

    @property
    def allowed(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.high is None:
            return f"{kind} of at least {self.low:g}"
        return f"{kind} from {self.low:g} to {self.high:g}"

    def read(self, text: str) -> int | float:
        """The value of a text.

        Raises:
            ValueError: not of this kind, or outside the bounds.
        """
        if "_" in text or text != text.strip():
            raise ValueError("Python reads these, people do not")
        value = int(text) if self.whole else float(text)
        if not isfinite(value) or value < self.low or (self.high is not None and value > self.high):
            raise ValueError("outside the bounds")
        return value


@dataclass(frozen=True)
class Scheme(ABC):
    """The base of all schemes.

    `records`: training records a site has where no number is asked for; None: all there are. `keeps_sites`: the
    sites are those the records came with. `equal_tests`: as many test records as training records.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    records: ClassVar[int | None] = None
    keeps_sites: ClassVar[bool] = False
    equal_tests: ClassVar[bool] = False

    @classmethod
    def form(cls) -> str:
        """The grammar of its text."""
        return ":".join((cls.name, *(parameter.name for parameter in cls.parameters)))

    @property
    def text(self) -> str:
        """The text that `spec.parse` reads this scheme from."""
        return ":".join((self.name, *(_plain(value) for value in astuple(self))))

    @abstractmethod
    def divide(self, ground: Ground, demand: Demand, generator: np.random.Generator) -> dict[str, Rows]:
        """The own rows of each site, by its name; no row twice.

        Raises:
            Misconfigured: the records cannot feed such a division.
        """

    def shifts(
        self, sites: Sequence[str], shape: tuple[int, ...], generator: np.random.Generator
    ) -> dict[str, Shift]:
        """How the inputs of sites differ; a site that is not named has those of the pool."""
        return {}

    def refusal(self, what: str, hint: str = "") -> Misconfigured:
        """The error of a division that cannot be."""
        return Misconfigured(f"partition {self.text}: {what}", hint=hint)

    def names(self, demand: Demand) -> list[str]:
        """site-000, site-001, …: enough digits that the order of the names is that of the numbers.

        Raises:
            Misconfigured: the number of sites was not given.
        """
        if demand.sites is None:
            raise self.refusal("the number of sites is not given", "--sites says how many")
        digits = max(3, len(str(demand.sites - 1)))
        return [f"site-{number:0{digits}d}" for number in range(demand.sites)]

    def fed_names(self, ground: Ground, demand: Demand) -> list[str]:
        """As `names`, when there are records enough to give every site `least`.

        Raises:
            Misconfigured: there are not, or as `names`.
        """
        names = self.names(demand)
        if len(names) * demand.least > len(ground.rows):
            able = len(ground.rows) // demand.least
            raise self.refusal(
                f"{len(names)} sites of at least {demand.least} records each are more than "
                f"{len(ground.rows)} records can feed",
                f"at most {able} sites, or fewer records a site" if able else "fewer records a site, or more data",
            )
        return names


def deal(ground: Ground, counts: NDArray[np.int64], generator: np.random.Generator) -> list[Rows]:
    """Rows of each site by its counts (m, C) of the classes; which record goes where is drawn.

    Needs: no column asks for more records than there are of its class.
    """
    order = generator.permutation(len(ground.rows))
    order = order[np.argsort(ground.labels[order], kind="stable")]
    shuffled, held = ground.rows[order], ground.counts()
    begin = np.concatenate([[0], held.cumsum()[:-1]])[None, :] + np.cumsum(counts, axis=0) - counts
    parts = []
    for site in range(len(counts)):
        pieces = [shuffled[b : b + n] for b, n in zip(begin[site], counts[site], strict=True) if n]
        parts.append(np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64))
    return parts


def _plain(value: float) -> str:
    return repr(value).removesuffix(".0")
