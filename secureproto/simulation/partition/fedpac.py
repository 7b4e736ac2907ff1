"""fedpac:S:K: sites of one size; S % of it uniform over all classes, the rest from K dominant classes.

Source: Xu, Tong, Huang, "Personalized Federated Learning with Feature Alignment and Classifier Collaboration",
ICLR 2023, section 6. The dominant classes are those of a group of sites, as in the published code: for 10 classes and
K = 3 the groups have {0, 1, 2}, {2, 3, 4}, {4, 5, 6}, {6, 7, 8}, {8, 9, 0}, and site i belongs to group i mod 5.
(For EMNIST that code has three groups: digits, capitals, small letters.)
Here a record is given to one site only, where the published code begins a class again when it is used up.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secureproto.simulation.partition.apportion import apportion
from secureproto.simulation.partition.scheme import Demand, Ground, Parameter, Scheme, deal
from secureproto.simulation.population import Rows


@dataclass(frozen=True)
class Fedpac(Scheme):
    """Every site has the same number of records, of each class its quota rounded down or up."""

    name: ClassVar[str] = "fedpac"
    summary: ClassVar[str] = "S % uniform over all classes, the rest from the K dominant ones of a group of sites"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("S", 0, 100, whole=True),
        Parameter("K", 1, whole=True),
    )
    records: ClassVar[int | None] = 600
    equal_tests: ClassVar[bool] = True

    s: int
    k: int

    def divide(self, ground: Ground, demand: Demand, generator: np.random.Generator) -> dict[str, Rows]:
        if self.k > len(ground.classes):
            raise self.refusal(f"the study has {len(ground.classes)} classes", f"K from 1 to {len(ground.classes)}")
        names = self.names(demand)
        asked = demand.least if demand.records is None else demand.records
        counts = np.stack([apportion(asked, self.weights(i, len(ground.classes))) for i in range(len(names))])
        need, have = counts.sum(axis=0), ground.counts()
        for index in np.flatnonzero(need > have)[:1]:
            raise self.refusal(
                f"{len(names)} sites of {asked} records need {need[index]} of {ground.named(int(index))}, "
                f"there are {have[index]}",
                "fewer sites, or a smaller --per-site",
            )
        return dict(zip(names, deal(ground, counts, generator), strict=True))

    def dominant(self, site: int, classes: int) -> NDArray[np.int64]:
        """(K,) the dominant classes of a site: around the circle of classes, a group begins with the last of the one
        before. The last group may so share several with the first."""
        step = max(self.k - 1, 1)
        groups = -(-classes // step)
        return (site % groups * step + np.arange(self.k, dtype=np.int64)) % classes

    def weights(self, site: int, classes: int) -> NDArray[np.int64]:
        """(C,) integers in proportion to the expected class counts of a site."""
        weights = np.full(classes, self.s * self.k, dtype=np.int64)
        weights[self.dominant(site, classes)] += (100 - self.s) * classes
        return weights
