"""quantity:ALPHA: the sites differ in size only; sizes by a Dirichlet distribution, labels IID.

Source: Li, Diao, Chen, He, "Federated Learning on Non-IID Data Silos", ICDE 2022, section IV-C (quantity skew). Sites
under the least size are filled from the largest, by `minimum.fill_up` without regard to classes.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secureproto.simulation.partition.apportion import apportion
from secureproto.simulation.partition.dirichlet import ALPHA, RESOLUTION
from secureproto.simulation.partition.minimum import fill_up
from secureproto.simulation.partition.scheme import Demand, Ground, Parameter, Scheme
from secureproto.simulation.population import Rows


@dataclass(frozen=True)
class Quantity(Scheme):
    """All records are used; every record goes to a site with a chance in proportion to the site's size."""

    name: ClassVar[str] = "quantity"
    summary: ClassVar[str] = "sizes differ, labels do not; the smaller ALPHA, the more so"
    parameters: ClassVar[tuple[Parameter, ...]] = (ALPHA,)

    alpha: float

    def divide(self, ground: Ground, demand: Demand, generator: np.random.Generator) -> dict[str, Rows]:
        if demand.per_site is not None:
            raise self.refusal("the sizes are what it draws", "leave --per-site out")
        names = self.fed_names(ground, demand)
        drawn = generator.dirichlet(np.full(len(names), self.alpha))
        sizes = apportion(len(ground.rows), np.rint(drawn * RESOLUTION).astype(np.int64))
        sizes = fill_up(sizes[:, None], demand.least)[:, 0]
        parts = np.split(generator.permutation(ground.rows), sizes.cumsum()[:-1])
        return dict(zip(names, parts, strict=True))
