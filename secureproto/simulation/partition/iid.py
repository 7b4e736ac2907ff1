"""iid: every record goes to any site with the same chance, and all sites have the same size.

Source: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017, section 3.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secureproto.simulation.partition.scheme import Demand, Ground, Scheme
from secureproto.simulation.population import Rows


@dataclass(frozen=True)
class Iid(Scheme):
    """All records, shuffled and cut into equal parts; sizes differ by one at most."""

    name: ClassVar[str] = "iid"
    summary: ClassVar[str] = "equal parts, drawn at random"

    def divide(self, ground: Ground, demand: Demand, generator: np.random.Generator) -> dict[str, Rows]:
        names = self.fed_names(ground, demand)
        parts = np.array_split(generator.permutation(ground.rows), len(names))
        return dict(zip(names, parts, strict=True))
