"""natural: the sites that the records came with (hospitals, writers, files).

Source: data that are divided by who produced them, Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secureproto.simulation.partition.scheme import Demand, Ground, Scheme
from secureproto.simulation.population import Rows


@dataclass(frozen=True)
class Natural(Scheme):
    """Each site has its own records; nothing is drawn. A number of sites must be that of the data."""

    name: ClassVar[str] = "natural"
    summary: ClassVar[str] = "the sites that the records came with"
    keeps_sites: ClassVar[bool] = True

    def divide(self, ground: Ground, demand: Demand, generator: np.random.Generator) -> dict[str, Rows]:
        if ground.natural is None:
            raise self.refusal(
                "these data have no sites of their own",
                "name a scheme that draws them, such as --partition iid; for files of your own, --site-column names "
                "the column that says whose a record is, and several --data are a site each",
            )
        found = rows_of_sites(ground.rows, ground.natural)
        if demand.sites not in (None, len(found)):
            raise self.refusal(f"{demand.sites} sites asked for, the data have {len(found)}", "leave --sites out")
        return found


def rows_of_sites(rows: Rows, sites: NDArray[np.str_]) -> dict[str, Rows]:
    """`rows` (n,) by their sites (n,), in the order of the names."""
    names, numbers = np.unique(sites, return_inverse=True)
    parts = np.split(rows[np.argsort(numbers, kind="stable")], np.bincount(numbers).cumsum()[:-1])
    return dict(zip(names.tolist(), parts, strict=True))
