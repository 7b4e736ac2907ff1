"""A drawn partition as a value: what was asked, and which rows each site got.

Invariants: rows are sorted; a row is training or validation of one site at most; the pool is known by its digest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from secureproto.errors import Misconfigured
from secureproto.simulation.population import Pool, Population, SiteRows
from secureproto.wire.canonical import MAX_INTEGER

Split = Literal["given", "stratified"]
MINIMUM = 10


@dataclass(frozen=True)
class Options:
    """What is asked of a partition beside its scheme.

    `sites`: how many, None for those of the data. `per_site`: training records of each site (validation included),
    None for all it gets. `split`: the source's own test part, or one drawn at each site, then `test_share` of its
    records. `validation_share`: of a site's training records; 0 for none. `minimum`: records of a site at least,
    where a scheme draws sizes.

    Raises:
        Misconfigured: a number that is not allowed.
    """

    sites: int | None = None
    per_site: int | None = None
    split: Split = "given"
    test_share: float = 0.3
    validation_share: float = 0.0
    seed: int = 0
    minimum: int = MINIMUM

    def __post_init__(self) -> None:
        _check("sites", self.sites, self.sites is None or self.sites >= 1, "at least 1")
        _check("per_site", self.per_site, self.per_site is None or self.per_site >= 1, "at least 1")
        _check("split", self.split, self.split in ("given", "stratified"), "given or stratified")
        _check("test_share", self.test_share, 0 < self.test_share < 1, "over 0 and under 1")
        _check("validation_share", self.validation_share, 0 <= self.validation_share < 1, "at least 0 and under 1")
        _check("seed", self.seed, 0 <= self.seed <= MAX_INTEGER, "at least 0 and under 2^53")
        _check("minimum", self.minimum, self.minimum >= 1, "at least 1")


@dataclass(frozen=True, eq=False)
class Partition:
    """One draw. `scheme`: its text; `pool`: digest of the records; `sites` in the order of their names."""

    scheme: str
    options: Options
    pool: str
    sites: Mapping[str, SiteRows]

    @property
    def tests_overlap(self) -> bool:
        """Whether a record is in the test parts of several sites."""
        tests = np.concatenate([rows.test for rows in self.sites.values()])
        return len(np.unique(tests)) < len(tests)

    def population(self, pool: Pool) -> Population:
        """The sites with their records. Raises as `Population`."""
        return Population(pool, self.sites)


@dataclass(frozen=True, eq=False)
class Divisions:
    """The partitions of an experiment: one for all seeds, or (`repeated`) another draw for each."""

    partitions: tuple[Partition, ...]
    repeated: bool = False

    def of(self, seed: int) -> Partition:
        """The partition of a seed.

        Raises:
            Misconfigured: it was not drawn.
        """
        if not self.repeated:
            return self.partitions[0]
        for partition in self.partitions:
            if partition.options.seed == seed:
                return partition
        drawn = ", ".join(str(partition.options.seed) for partition in self.partitions)
        raise Misconfigured(f"partition: none was drawn for seed {seed}", hint=f"there are those of seeds {drawn}")


def _check(name: str, value: object, holds: bool, allowed: str) -> None:
    if not holds:
        raise Misconfigured(f"partition: {name} is {value}; allowed: {allowed}")
