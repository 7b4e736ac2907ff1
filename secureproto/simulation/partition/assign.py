"""From a pool and a scheme to a partition: own rows of each site, its test part, its validation part.

    1. own rows           by the scheme, from all records (stratified) or from those not held out (given)
    2. test part          given: from the held-out records, in the proportions of the site's own classes (`given`),
                          or the site's own held-out records, where sites are natural;
                          stratified: a share of its own rows, class by class
    3. training part      the other own rows, thinned out to `per_site` where that is asked for
    4. validation part    a share of the training part, class by class

Invariants: a site is tested on its own distribution (as FedPAC does it, ICLR 2023, section 5); each step has random
numbers of its own, so that another share of validation records moves no record from site to site or into a test part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from secureproto.errors import Misconfigured
from secureproto.simulation.partition.apportion import Halves, hold_back, thin_out
from secureproto.simulation.partition.division import Divisions, Options, Partition
from secureproto.simulation.partition.given import own_tests, proportional_tests
from secureproto.simulation.partition.scheme import Demand, Ground, Scheme
from secureproto.simulation.population import Pool, Rows, SiteRows

_OWN, _SHIFT, _TEST, _THIN, _VALIDATION = range(5)


def draw(
    pool: Pool, scheme: Scheme, options: Options, *, classes: Sequence[str], seeds: Sequence[int], repeated: bool
) -> Divisions:
    """One partition by `options.seed`, or (`repeated`) another split of the same sites' records for each of `seeds`.
    Raises as `assign`."""
    digest = pool.digest()
    asked = [replace(options, seed=seed) for seed in seeds] if repeated else [options]
    drawn = (assign(pool, scheme, each, classes=classes, digest=digest, sites_by=options.seed) for each in asked)
    return Divisions(tuple(drawn), repeated)


def assign(
    pool: Pool,
    scheme: Scheme,
    options: Options,
    *,
    classes: Sequence[str],
    digest: str | None = None,
    sites_by: int | None = None,
) -> Partition:
    """The partition of a pool. `classes`: the study's, by index; `digest`: the pool's, where it is known; `sites_by`:
    the seed of step 1 and of shifts, where it is another than that of the split: a site is then the same in all.

    Raises:
        Misconfigured: the records cannot feed such a partition, or have no sites or no test part of their own.
    """
    ground = _ground(pool, options, tuple(classes))
    dividing = options if sites_by is None else replace(options, seed=sites_by)
    own = scheme.divide(ground, _demand(scheme, options, len(classes)), _generator(dividing, _OWN))
    own = {site: own[site] for site in sorted(own)}
    if options.split == "stratified":
        halves = _stratified(own, pool, options)
        _refuse_empty(halves, scheme, "a site needs two records at least: leave it out")
    else:
        halves = _given(own, pool, scheme, ground, _generator(options, _TEST))
        _refuse_empty(halves, scheme, "leave the site out, or --split stratified")
    thinned = _per_site(halves, pool, scheme, options)
    numbers = _generator(options, _VALIDATION)
    shifts = scheme.shifts(list(own), ground.shape, _generator(dividing, _SHIFT))
    sites = {}
    for site, train in thinned.items():
        parts = Halves(train, train[:0])
        if options.validation_share:
            parts = hold_back(train, pool.records.y, options.validation_share, numbers)
        kept, test, validation = (np.sort(part) for part in (parts.kept, halves[site].held, parts.held))
        sites[site] = SiteRows(kept, test, validation, shifts.get(site))
    return Partition(scheme.text, options, pool.digest() if digest is None else digest, sites)


def _ground(pool: Pool, options: Options, classes: tuple[str, ...]) -> Ground:
    y = pool.records.y
    if len(y) == 0:
        raise Misconfigured("partition: there are no records")
    if y.min() < 0 or y.max() >= len(classes):
        raise ValueError("a label is no index of a class")
    if options.split == "given" and (pool.held_out is None or not pool.held_out.any()):
        raise Misconfigured(
            "partition: these data have no test part of their own", hint="--split stratified draws one"
        )
    used = np.ones(len(y), dtype=np.bool_)
    if options.split == "given" and pool.held_out is not None:
        used = ~pool.held_out
    rows = np.flatnonzero(used).astype(np.int64)
    natural = None if pool.sites is None else pool.sites[rows]
    return Ground(rows, y[rows], classes, pool.records.x.shape[1:], natural)


def _demand(scheme: Scheme, options: Options, classes: int) -> Demand:
    """`records`: so many that `per_site` are left when the test part is taken, which is at most the share, or one
    record of each class that has two."""
    stratified = options.split == "stratified"
    per_site = _training_records(scheme, options)
    records = per_site
    if per_site is not None and stratified:
        tests = ceil(per_site * options.test_share / (1 - options.test_share))
        records = per_site + max(tests, min(classes, per_site))
    return Demand(
        sites=options.sites,
        least=max(options.minimum, records or 1),
        per_site=per_site,
        records=records,
        per_class=2 if stratified else 1,
    )


def _training_records(scheme: Scheme, options: Options) -> int | None:
    return scheme.records if options.per_site is None else options.per_site


def _stratified(own: Mapping[str, Rows], pool: Pool, options: Options) -> dict[str, Halves]:
    numbers = _generator(options, _TEST)
    return {
        site: hold_back(rows, pool.records.y, options.test_share, numbers, every_class=True)
        for site, rows in own.items()
    }


def _given(
    own: Mapping[str, Rows], pool: Pool, scheme: Scheme, ground: Ground, generator: np.random.Generator
) -> dict[str, Halves]:
    if scheme.keeps_sites:
        tests = own_tests(own, pool)
    else:
        tests = proportional_tests(own, pool, ground, generator, equal=scheme.equal_tests)
    return {site: Halves(rows, tests[site]) for site, rows in own.items()}


def _per_site(halves: Mapping[str, Halves], pool: Pool, scheme: Scheme, options: Options) -> dict[str, Rows]:
    wanted = _training_records(scheme, options)
    if wanted is None:
        return {site: each.kept for site, each in halves.items()}
    for site, each in halves.items():
        if len(each.kept) < wanted:
            raise scheme.refusal(
                f"site {site} has {len(each.kept)} training records, {wanted} were asked for", "a smaller --per-site"
            )
    numbers = _generator(options, _THIN)
    return {site: thin_out(each.kept, pool.records.y, wanted, numbers) for site, each in halves.items()}


def _refuse_empty(halves: Mapping[str, Halves], scheme: Scheme, hint: str) -> None:
    for site, each in halves.items():
        for part, rows in (("training", each.kept), ("test", each.held)):
            if len(rows) == 0:
                raise scheme.refusal(f"site {site} has no {part} records", hint)


def _generator(options: Options, step: int) -> np.random.Generator:
    return np.random.default_rng([options.seed, step])
