"""pathological:K: a site has records of K classes and of no other.

Source: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017, section 3
(shards sorted by label: at most two classes a site); Collins et al., "Exploiting Shared Representations for
Personalized Federated Learning", ICML 2021 (the same number of classes at every site), which is kept here.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secureproto.simulation.partition.apportion import apportion
from secureproto.simulation.partition.scheme import Demand, Ground, Parameter, Scheme, deal
from secureproto.simulation.population import Rows


@dataclass(frozen=True)
class Pathological(Scheme):
    """Every site holds exactly K classes. The records of a class go in equal parts to the sites that hold it.

    Each site in turn gets the K classes with the fewest holders so far, equal ones drawn: numbers of holders differ
    by one at most, so that every class is used when sites · K reaches the number of classes.
    """

    name: ClassVar[str] = "pathological"
    summary: ClassVar[str] = "K classes a site"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("K", 1, whole=True),)

    k: int

    def divide(self, ground: Ground, demand: Demand, generator: np.random.Generator) -> dict[str, Rows]:
        if self.k > len(ground.classes):
            raise self.refusal(f"the study has {len(ground.classes)} classes", f"K from 1 to {len(ground.classes)}")
        if demand.per_site is not None and demand.per_site < self.k:
            raise self.refusal(
                f"{demand.per_site} training records a site cannot have {self.k} classes", "a greater --per-site"
            )
        names = self.names(demand)
        holds = self._holders(len(names), len(ground.classes), generator)
        have = ground.counts()
        for index in np.flatnonzero(holds.sum(axis=0) * demand.per_class > have)[:1]:
            holders = int(holds[:, index].sum())
            raise self.refusal(
                f"{ground.named(int(index))} has {have[index]} records for {holders} sites that hold it, "
                f"{demand.per_class} each",
                "fewer sites, or a smaller K",
            )
        counts = np.zeros(holds.shape, dtype=np.int64)
        for index in np.flatnonzero(holds.any(axis=0)):
            counts[:, index] = apportion(int(have[index]), holds[:, index].astype(np.int64))
        return dict(zip(names, deal(ground, counts, generator), strict=True))

    def _holders(self, sites: int, classes: int, generator: np.random.Generator) -> NDArray[np.bool_]:
        """(sites, classes): who holds what."""
        holds = np.zeros((sites, classes), dtype=np.bool_)
        holders = np.zeros(classes, dtype=np.int64)
        for site in range(sites):
            chosen = np.lexsort((generator.random(classes), holders))[: self.k]
            holds[site, chosen] = True
            holders[chosen] += 1
        return holds
