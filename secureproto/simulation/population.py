"""All records of a simulation, divided over sites: a pool, a partition of its rows, and what each site holds of it.

Invariants: the rows of a site are fixed before anything is trained; no record is in two parts of one site; a site's
records are copied out of the pool when they are asked for and not before, so that thousands of sites cost no more
memory than the pool itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.simulation.shift import Shift
from secureproto.wire import canonical

Rows = NDArray[np.int64]
MAX_SITE_NAME = 63  # as of a site in a federation; it stands in file names and in the heads of tables
_SITE_NAME = re.compile(rf"[^./][^/]{{0,{MAX_SITE_NAME - 1}}}")
POOL_LABEL = b"secureproto/v1/simulation-pool"


def can_name_a_site(name: str) -> bool:
    """Whether a text holds nothing that a file system or a terminal could stumble over."""
    return _SITE_NAME.fullmatch(name) is not None and name.isprintable()


@dataclass(frozen=True, eq=False)
class Pool:
    """The records of a data set before they are divided.

    `sites`: (n,) the natural site of each record, or None where the data have no sites of their own. `held_out`:
    (n,) bool, the source's own test part, or None where the source has none.

    Raises:
        ValueError: lengths that differ.
    """

    records: Records
    sites: NDArray[np.str_] | None = None
    held_out: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for part in (self.sites, self.held_out):
            if part is not None and part.shape != (len(self.records),):
                raise ValueError("a pool has one site and one part for each record")

    def digest(self) -> str:
        """SHA-256 over all of it: two pools with one digest hold the same records in the same order."""
        x, y = self.records.x, self.records.y
        sites = b"" if self.sites is None else canonical.encode(self.sites.tolist())
        held_out = b"" if self.held_out is None else self.held_out.tobytes()
        # the shape settles where x and y end; x is fed as it lies, since a copy of it may be gigabytes
        found = sha256(canonical.length_prefixed(POOL_LABEL, repr(x.shape).encode(), sites, held_out))
        found.update(np.ascontiguousarray(x).data)
        found.update(np.ascontiguousarray(y).data)
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class SiteRows:
    """Row numbers in the pool, sorted: what a site trains on, chooses by, and is scored on. `shift`: how its inputs
    differ from the pool's."""

    train: Rows
    test: Rows
    validation: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    shift: Shift | None = None


@dataclass(frozen=True, eq=False)
class SiteData:
    """The records of one site. `validation` is empty where nothing is chosen by it."""

    train: Records
    test: Records
    validation: Records | None = None


class Population:
    """The sites of a simulation by name, in the order of their names.

    Raises:
        Misconfigured: no site, or one without training or test records.
    """

    def __init__(self, pool: Pool, sites: Mapping[str, SiteRows]) -> None:
        self._pool = pool
        self._rows = {site: sites[site] for site in sorted(sites)}
        _check({site: (len(rows.train), len(rows.test)) for site, rows in self._rows.items()})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._rows)

    def site(self, name: str) -> SiteData:
        """The records of a site, copied out of the pool."""
        rows = self._rows[name]
        return SiteData(*(self._records(part, rows.shift) for part in (rows.train, rows.test, rows.validation)))

    def _records(self, rows: Rows, shift: Shift | None) -> Records:
        x = self._pool.records.x[rows]
        return Records(x if shift is None else shift.apply(x), self._pool.records.y[rows])


class GivenSites:
    """A population of records that are at hand, as the demo has them. Raises as `Population`."""

    def __init__(self, sites: Mapping[str, SiteData]) -> None:
        self._sites = {site: sites[site] for site in sorted(sites)}
        _check({site: (len(data.train), len(data.test)) for site, data in self._sites.items()})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._sites)

    def site(self, name: str) -> SiteData:
        """The records of a site."""
        return self._sites[name]


def _check(sizes: Mapping[str, tuple[int, int]]) -> None:
    if not sizes:
        raise Misconfigured("simulation: there are no sites")
    for site, counts in sizes.items():
        for part, count in zip(("training", "test"), counts, strict=True):
            if count == 0:
                raise Misconfigured(f"simulation: site {site} has no {part} records", hint="leave the site out")
