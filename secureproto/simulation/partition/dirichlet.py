"""dirichlet:ALPHA: each class is spread over the sites by proportions drawn from a symmetric Dirichlet distribution.

Source: Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019 (the distribution; there it is drawn over the classes, for each site); Li, Diao, Chen, He,
"Federated Learning on Non-IID Data Silos: An Experimental Study", ICDE 2022, "distribution-based label imbalance"
(over the sites, class by class: all records are used and sizes differ), which is done here. Small α: few sites have
nearly all of a class; large α: as iid. Sites under the least size are filled by `minimum.fill_up`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secureproto.simulation.partition.apportion import apportion
from secureproto.simulation.partition.minimum import fill_up
from secureproto.simulation.partition.scheme import Demand, Ground, Parameter, Scheme, deal
from secureproto.simulation.population import Rows

RESOLUTION = 2**32  # proportions become integers of this sum: counts are exact, and the same on every machine
ALPHA = Parameter("ALPHA", 1e-4, 1e4)


@dataclass(frozen=True)
class Dirichlet(Scheme):
    """All records are used. A site has `least` records, whatever was drawn."""

    name: ClassVar[str] = "dirichlet"
    summary: ClassVar[str] = "classes spread unevenly; the smaller ALPHA, the more so"
    parameters: ClassVar[tuple[Parameter, ...]] = (ALPHA,)

    alpha: float

    def divide(self, ground: Ground, demand: Demand, generator: np.random.Generator) -> dict[str, Rows]:
        names = self.fed_names(ground, demand)
        drawn = generator.dirichlet(np.full(len(names), self.alpha), size=len(ground.classes))
        weights = np.rint(drawn * RESOLUTION).astype(np.int64)
        columns = [apportion(int(n), row) for n, row in zip(ground.counts(), weights, strict=True)]
        counts = fill_up(np.stack(columns, axis=1), demand.least)
        return dict(zip(names, deal(ground, counts, generator), strict=True))
