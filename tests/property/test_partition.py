"""What holds for every partition: it ends, a record is used once, sizes and proportions are what was asked."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secureproto.errors import Misconfigured
from secureproto.simulation.partition.apportion import apportion
from secureproto.simulation.partition.division import Divisions, Partition
from secureproto.simulation.partition.fedpac import Fedpac
from secureproto.simulation.partition.file import digest_of, load, save
from secureproto.simulation.partition.minimum import fill_up
from secureproto.simulation.population import Pool
from support.partitions import divided, own_counts, pool_of

SEEDS = st.integers(0, 2**53 - 1)
ALPHAS = st.sampled_from([1e-4, 1e4]) | st.floats(1e-4, 1e4) | st.floats(1e-4, 1.0)
COUNTS = st.lists(st.integers(0, 200), min_size=2, max_size=12).map(lambda counts: [*counts, 2])
HELD = COUNTS | st.integers(1, 40).map(lambda n: [n] * 13)
SHARES = st.floats(0.01, 0.99)
ONE = st.sampled_from(["iid", "feature-shift"])
TEXTS = (
    ONE
    | ALPHAS.map(lambda alpha: f"dirichlet:{alpha!r}")
    | ALPHAS.map(lambda alpha: f"quantity:{alpha!r}")
    | st.integers(1, 12).map(lambda k: f"pathological:{k}")
    | st.tuples(st.integers(0, 100), st.integers(1, 12)).map(lambda sk: f"fedpac:{sk[0]}:{sk[1]}")
)
OPTIONS = st.fixed_dictionaries(
    {
        "sites": st.integers(1, 8) | st.integers(1, 60),
        "per_site": st.none() | st.integers(1, 40),
        "split": st.sampled_from(["given", "stratified"]),
        "test_share": SHARES,
        "validation_share": st.just(0.0) | SHARES,
        "seed": SEEDS,
        "minimum": st.integers(1, 12),
    }
)
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def attempt(pool: Pool, text: str, classes: int, **options: Any) -> Partition | str:
    """The partition, or the line it is refused with; nothing else may be raised."""
    try:
        return divided(pool, text, classes=classes, **options)
    except Misconfigured as error:
        return error.message


@settings(SLOW, max_examples=300)
@given(counts=COUNTS, held=HELD, text=TEXTS, options=OPTIONS)
def test_any_partition_ends_and_keeps_its_promises(
    counts: list[int], held: list[int], text: str, options: dict[str, Any]
) -> None:
    classes = max(len(counts), len(held))
    pool = pool_of(counts, held)
    if text.startswith("fedpac"):  # its own 600 are more than most of these pools have
        options["per_site"] = options["per_site"] or 20
    partition = attempt(pool, text, classes, **options)
    if isinstance(partition, str):
        assert "\n" not in partition
        return
    assert list(partition.sites) == sorted(partition.sites)
    assert len(partition.sites) == options["sites"]
    learned = np.concatenate([np.r_[rows.train, rows.validation] for rows in partition.sites.values()])
    assert len(np.unique(learned)) == len(learned)
    assert pool.held_out is not None
    for rows in partition.sites.values():
        parts = (rows.train, rows.test, rows.validation)
        assert all((np.diff(part) > 0).all() for part in parts)
        assert len(np.unique(np.concatenate(parts))) == sum(len(part) for part in parts)
        assert len(rows.train) >= 1
        assert len(rows.test) >= 1
        if options["per_site"] is not None:
            assert len(rows.train) + len(rows.validation) == options["per_site"]
        if options["split"] == "given":
            assert pool.held_out[rows.test].all()
            assert not pool.held_out[np.r_[rows.train, rows.validation]].any()
    if options["split"] == "stratified":
        assert not partition.tests_overlap


@settings(SLOW, max_examples=150)
@given(counts=COUNTS, alpha=ALPHAS, sites=st.integers(1, 200), least=st.integers(1, 12), seed=SEEDS)
def test_dirichlet_and_quantity_use_everything_and_leave_no_site_too_small(
    counts: list[int], alpha: float, sites: int, least: int, seed: int
) -> None:
    pool = pool_of(counts, [50] * len(counts))
    for scheme in ("dirichlet", "quantity"):
        text = f"{scheme}:{alpha!r}"
        partition = attempt(pool, text, len(counts), sites=sites, seed=seed, minimum=least)
        # refused exactly when it cannot be
        assert isinstance(partition, str) == (sites * least > sum(counts))
        if isinstance(partition, Partition):
            sizes = [len(rows.train) for rows in partition.sites.values()]
            assert sum(sizes) == sum(counts)
            assert min(sizes) >= least


@settings(SLOW, max_examples=150)
@given(
    counts=st.lists(st.integers(0, 90), min_size=2, max_size=10),
    sites=st.integers(1, 30),
    k=st.integers(1, 10),
    split=st.sampled_from(["given", "stratified"]),
    seed=SEEDS,
)
def test_pathological_sites_have_exactly_k_classes_or_a_class_is_named(
    counts: list[int], sites: int, k: int, split: str, seed: int
) -> None:
    pool, classes = pool_of([*counts, 1], [30] * (len(counts) + 1)), len(counts) + 1
    partition = attempt(pool, f"pathological:{k}", classes, sites=sites, split=split, seed=seed)
    if isinstance(partition, str):
        assert "classes" in partition or "kind" in partition
        return
    held = own_counts(partition, pool, classes)
    assert (np.count_nonzero(held, axis=1) == k).all()
    holders = np.count_nonzero(held, axis=0)
    assert holders.max() - holders.min() <= 1
    if sites * k >= classes:
        assert holders.all()
    for index in np.flatnonzero(holders):
        of_class = held[:, index][held[:, index] > 0]
        if split == "given":
            assert of_class.max() - of_class.min() <= 1
            assert of_class.sum() == [*counts, 1][index]


@settings(SLOW, max_examples=150)
@given(
    counts=st.lists(st.integers(20, 300), min_size=2, max_size=8),
    held=st.integers(10, 80),
    text=TEXTS,
    sites=st.integers(1, 12),
    seed=SEEDS,
)
def test_tests_follow_the_classes_of_the_site(counts: list[int], held: int, text: str, sites: int, seed: int) -> None:
    """Each class of a test part is its quota, rounded; records are shared no more than they must be."""
    classes = len(counts)
    pool = pool_of(counts, [held] * classes)
    # per_site only where it is needed: it thins out training, and tests follow what was there before
    per_site = 40 if text.startswith("fedpac") else None
    partition = attempt(pool, text, classes, sites=sites, seed=seed, per_site=per_site)
    if isinstance(partition, str):
        return
    own = own_counts(partition, pool, classes)
    tests = own_counts(partition, pool, classes, "test")
    assert not tests[own == 0].any()
    # a record left out changes the total by one for each class at most: bracket the quota by both totals
    low = own * tests.sum(axis=1, keepdims=True) / own.sum(axis=1, keepdims=True)
    high = own * (tests.sum(axis=1, keepdims=True) + classes) / own.sum(axis=1, keepdims=True)
    assert (tests > low - 1 - 1e-9).all()
    assert (tests < high + 1 + 1e-9).all()
    times = np.bincount(np.concatenate([rows.test for rows in partition.sites.values()]), minlength=len(pool.records))
    for index in range(classes):
        of_class = times[(pool.records.y == index) & pool.held_out]
        assert of_class.max() - of_class.min() <= 1


@settings(SLOW, max_examples=150)
@given(
    s=st.integers(0, 100), k=st.integers(1, 10), classes=st.integers(2, 10), sites=st.integers(1, 12),
    per_site=st.integers(1, 80), seed=SEEDS,
)  # fmt: skip
def test_fedpac_counts_are_the_expected_ones_rounded(
    s: int, k: int, classes: int, sites: int, per_site: int, seed: int
) -> None:
    pool = pool_of([1000] * classes, [100] * classes)
    partition = attempt(pool, f"fedpac:{s}:{k}", classes, sites=sites, per_site=per_site, seed=seed)
    assert isinstance(partition, str) == (k > classes)
    if isinstance(partition, str):
        return
    counts = own_counts(partition, pool, classes)
    dominant = set()
    for site in range(sites):
        chosen = {int(j) for j in Fedpac(s, k).dominant(site, classes)}
        assert len(chosen) == k
        dominant |= chosen
        for j in range(classes):
            expected = per_site * (s / 100 / classes + (1 - s / 100) / k * (j in chosen))
            assert abs(counts[site, j] - expected) < 1 + 1e-9
    if sites >= classes:
        assert dominant == set(range(classes))


@given(
    total=st.integers(0, 10_000),
    weights=st.lists(st.integers(0, 2**32), min_size=1, max_size=40).filter(any),
)
def test_shares_are_quotas_rounded(total: int, weights: list[int]) -> None:
    shares = apportion(total, np.array(weights, dtype=np.int64)).tolist()
    assert sum(shares) == total
    for share, weight in zip(shares, weights, strict=True):
        # in integers: quota − 1 < share < quota + 1
        assert (share - 1) * sum(weights) < total * weight < (share + 1) * sum(weights)


@given(
    total=st.integers(0, 200),
    rows=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(0, 30)), min_size=1, max_size=12),
)
def test_bounds_are_kept(total: int, rows: list[tuple[int, int, int]]) -> None:
    weights, lower, room = np.array(rows, dtype=np.int64).T
    shares = apportion(total, weights, lower=lower, upper=lower + room)
    assert (shares >= lower).all()
    assert (shares <= lower + room).all()
    assert shares.sum() == min(max(total, lower.sum()), (lower + room).sum())


@settings(SLOW)
@given(
    counts=st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=1, max_size=30),
    least=st.integers(1, 20),
)
def test_filling_up_moves_no_more_than_is_missing(counts: list[list[int]], least: int) -> None:
    before = np.array(counts, dtype=np.int64)
    if before.sum() < len(before) * least:
        return
    after = fill_up(before, least)
    assert (after >= 0).all()
    assert after.sum(axis=0).tolist() == before.sum(axis=0).tolist()
    sizes, filled = before.sum(axis=1), after.sum(axis=1)
    small = sizes < least
    assert (filled[small] == least).all()
    assert (filled[~small] >= least).all()
    assert (after[small] >= before[small]).all()
    assert (after[~small] <= before[~small]).all()


@settings(SLOW, max_examples=40)
@given(counts=COUNTS, text=TEXTS, options=OPTIONS)
def test_a_partition_is_its_seed_and_its_file(counts: list[int], text: str, options: dict[str, Any]) -> None:
    pool = pool_of(counts, [40] * len(counts))
    one, same = (attempt(pool, text, len(counts), **options) for _ in range(2))
    if isinstance(one, str) or isinstance(same, str):
        assert one == same
        return
    assert digest_of(Divisions((one,))) == digest_of(Divisions((same,)))
    with TemporaryDirectory() as directory:
        path = Path(directory) / "partition.json"
        save(Divisions((one,)), path)
        assert digest_of(load(path, pool, digest="d")) == digest_of(Divisions((one,)))
