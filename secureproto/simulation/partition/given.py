"""Test parts from the records that the source itself holds out.

A site is tested on its own distribution: as many held-out records as its own rows call for, in the proportions of
its own classes, of each class its quota rounded up or down. The held-out records of a class are dealt from site to
site until they are used up, and then dealt again from the first: test parts of different sites share no record as
long as there are enough (and never for want of the few that rounding up costs), and as few as can be when there are
not. A site never has a record twice.
"""

from collections.abc import Mapping

import numpy as np

from secureproto.errors import Misconfigured
from secureproto.simulation.partition.apportion import I64, apportion
from secureproto.simulation.partition.natural import rows_of_sites
from secureproto.simulation.partition.scheme import Ground
from secureproto.simulation.population import Pool, Rows

LEAST_TESTS = 10  # a share of a small site's records would be too few to tell one accuracy from another


def own_tests(own: Mapping[str, Rows], pool: Pool) -> dict[str, Rows]:
    """The held-out records of each natural site; none for a site that has none.

    Raises:
        Misconfigured: a site has held-out records only.
    """
    if pool.sites is None:
        raise ValueError("the pool has no natural sites")
    held = _held_out(pool)
    tests = rows_of_sites(held, pool.sites[held])
    for site in sorted(tests.keys() - own.keys())[:1]:
        raise Misconfigured(
            f"partition: all records of site {site} are in the data's own test part",
            hint="--split stratified draws test records at the sites",
        )
    return {site: tests.get(site, held[:0]) for site in own}


def proportional_tests(
    own: Mapping[str, Rows], pool: Pool, ground: Ground, generator: np.random.Generator, *, equal: bool
) -> dict[str, Rows]:
    """Test rows of each site from the held-out part.

    Their number: as many as own rows (`equal`), or a ratio of them (`_ratio`) and LEAST_TESTS at least; fewer where
    the held-out part does not have so many in these proportions.

    Raises:
        Misconfigured: a class of a site has no held-out record.
    """
    held, y = _held_out(pool), pool.records.y
    have: I64 = np.bincount(y[held], minlength=len(ground.classes))
    counts: I64 = np.stack([np.bincount(y[rows], minlength=len(have)) for rows in own.values()])
    sizes = counts.sum(axis=1)
    most = _most(counts, have, ground)
    some, of = (1, 1) if equal else _ratio(counts.sum(axis=0), have, len(ground.rows))
    wanted = np.minimum(np.maximum(sizes * some // of, LEAST_TESTS), most)
    takes = np.stack([apportion(int(n), row) for n, row in zip(wanted, counts, strict=True)])
    _round_down(takes, wanted[:, None] * counts // sizes[:, None], have)
    queues = [generator.permutation(held[y[held] == j]) for j in range(len(have))]
    dealt = np.cumsum(takes, axis=0) - takes
    return {site: _dealt(queues, dealt[i], takes[i]) for i, site in enumerate(own)}


def _ratio(own: I64, have: I64, rest: int) -> tuple[int, int]:
    """Test records to own records, the same for all sites, from own and held-out records (C,) of the classes.

    The greatest ratio at which every class goes round, when classes are held out in nearly equal shares; where one is
    so rare that this would leave half of the held-out part unused, the ratio of that part to the rest.
    """
    share, index = min((have[j] / own[j], int(j)) for j in np.flatnonzero(own))
    total = int(have.sum())
    return (int(have[index]), int(own[index])) if 2 * share * rest >= total else (total, rest)


def _most(counts: I64, have: I64, ground: Ground) -> I64:
    """(m,) the greatest number of test records that each site can have in the proportions `counts` (m, C)."""
    for index in np.flatnonzero(counts.any(axis=0) & (have == 0))[:1]:
        raise Misconfigured(
            f"partition: the data's own test part has no record of {ground.named(int(index))}, which sites hold",
            hint="--split stratified draws test records at the sites",
        )
    fits = have * counts.sum(axis=1, keepdims=True) // np.maximum(counts, 1)
    most: I64 = np.where(counts > 0, fits, np.iinfo(np.int64).max).min(axis=1)
    return most


def _round_down(takes: I64, floors: I64, have: I64) -> None:
    """Leave out records that quotas were rounded up by, of classes that would not go round with them; in place.

    Sites with more test records lose one first. A class that would not go round without them either is left as it is,
    and so is a site's only test record.
    """
    for j in np.flatnonzero(takes.sum(axis=0) > have):
        surplus = int(takes[:, j].sum() - have[j])
        sizes = takes.sum(axis=1)
        up = np.flatnonzero((takes[:, j] > floors[:, j]) & (sizes > 1))
        if surplus <= len(up):
            takes[up[np.argsort(-sizes[up], kind="stable")[:surplus]], j] -= 1


def _dealt(queues: list[Rows], begin: I64, take: I64) -> Rows:
    parts = [queues[j][(begin[j] + np.arange(take[j])) % len(queues[j])] for j in np.flatnonzero(take)]
    return np.concatenate(parts)


def _held_out(pool: Pool) -> Rows:
    if pool.held_out is None:
        raise ValueError("the pool has no held-out part")
    return np.flatnonzero(pool.held_out).astype(np.int64)
