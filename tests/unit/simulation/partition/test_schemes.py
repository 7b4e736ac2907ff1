"""Each scheme by what its paper says of it."""

from typing import Any

import numpy as np
import pytest

from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.simulation.partition.fedpac import Fedpac
from secureproto.simulation.partition.minimum import fill_up
from secureproto.simulation.population import Pool
from secureproto.simulation.shift import Shift
from support.partitions import divided, own_counts, pool_of


def refused(counts: list[int], text: str, **options: Any) -> str:
    with pytest.raises(Misconfigured) as caught:
        divided(pool_of(counts), text, split="stratified", **options)
    return f"{caught.value.message} | {caught.value.hint}"


def test_natural_sites_keep_their_records() -> None:
    pool = pool_of([30, 30], sites=3)
    partition = divided(pool, "natural", split="stratified")
    assert list(partition.sites) == ["place-0", "place-1", "place-2"]
    for i, rows in enumerate(partition.sites.values()):
        assert sorted([*rows.train, *rows.test]) == list(range(i, 60, 3))


def test_natural_needs_sites_and_as_many_as_are_asked_for() -> None:
    assert "no sites of their own" in refused([5, 5], "natural")
    with pytest.raises(Misconfigured, match="4 sites asked for, the data have 3"):
        divided(pool_of([30, 30], sites=3), "natural", split="stratified", sites=4)


def test_names_of_sites_sort_as_their_numbers() -> None:
    assert list(divided(pool_of([99, 99]), "iid", split="stratified", sites=3).sites)[-1] == "site-002"
    partition = divided(pool_of([2000, 2002]), "iid", split="stratified", sites=1001, minimum=2)
    assert list(partition.sites)[:2] == ["site-0000", "site-0001"]
    assert list(partition.sites)[-1] == "site-1000"


def test_the_number_of_sites_must_be_said() -> None:
    for text in ("iid", "dirichlet:1", "pathological:1", "fedpac:20:1", "feature-shift", "quantity:1"):
        assert "--sites" in refused([50, 50], text)


def test_iid_is_equal_parts_of_everything() -> None:
    pool = pool_of([500, 503])
    counts = own_counts(divided(pool, "iid", split="stratified", sites=4, test_share=0.5), pool, 2)
    tests = own_counts(divided(pool, "iid", split="stratified", sites=4, test_share=0.5), pool, 2, "test")
    whole = counts + tests
    assert sorted(whole.sum(axis=1)) == [250, 251, 251, 251]
    # hypergeometric with a deviation of about 6.9: five of them
    assert np.abs(whole[:, 0] - 125).max() < 35
    assert len(set(whole[:, 0].tolist())) > 1


def test_more_sites_than_the_data_can_feed() -> None:
    for text in ("iid", "dirichlet:1", "quantity:1", "feature-shift"):
        told = refused([50, 49], text, sites=10)
        assert "10 sites of at least 10 records each are more than 99 records can feed" in told
        assert "at most 9 sites, or fewer records" in told
        told = refused([3, 3], text, sites=10)
        assert "at most" not in told
        assert "fewer records a site, or more data" in told


@pytest.mark.parametrize("text", ["iid", "quantity:10000"])
def test_the_order_of_the_data_does_not_matter(text: str) -> None:
    records = pool_of([500, 500]).records
    pool = Pool(Records(records.x, np.sort(records.y)))
    counts = own_counts(divided(pool, text, split="stratified", sites=4), pool, 2)
    assert np.abs(counts[:, 0] / counts.sum(axis=1) - 0.5).max() < 0.1


@pytest.mark.parametrize(("alpha", "low", "high"), [(0.05, 0.5, 1.0), (1e4, 0.0, 0.02)])
def test_dirichlet_spreads_classes_by_alpha(alpha: float, low: float, high: float) -> None:
    pool = pool_of([2000] * 5)
    counts = own_counts(divided(pool, f"dirichlet:{alpha}", split="stratified", sites=10), pool, 5)
    shares = counts / counts.sum(axis=0)
    spread = (shares.max(axis=0) - 0.1).mean() / 0.9
    assert low <= spread <= high


def test_dirichlet_proportions_have_the_distribution_of_the_paper() -> None:
    """Of m sites with α: the mean of a share is 1/m, its variance (m − 1) / (m² (m α + 1))."""
    pool = pool_of([10_000] * 40)
    partition = divided(pool, "dirichlet:0.5", split="stratified", sites=5, seed=3)
    own = own_counts(partition, pool, 40) + own_counts(partition, pool, 40, "test")
    shares = own / 10_000
    assert shares.sum(axis=0) == pytest.approx(np.ones(40))
    assert shares.var() == pytest.approx(4 / (25 * 3.5), rel=0.25)


@pytest.mark.parametrize("alpha", ["0.0001", "0.01", "10000"])
def test_dirichlet_ends_for_thousands_of_sites(alpha: str) -> None:
    partition = divided(pool_of([3000] * 10, [400] * 10), f"dirichlet:{alpha}", sites=3000)
    assert min(len(rows.train) for rows in partition.sites.values()) == 10


def test_a_repaired_site_keeps_to_its_classes() -> None:
    """With so small an α a site holds one class or none; filling it up adds no other while its class lasts."""
    pool = pool_of([1000] * 10)
    partition = divided(pool, "dirichlet:0.0001", sites=40, split="stratified")
    held = np.count_nonzero(own_counts(partition, pool, 10), axis=1)
    assert held.tolist().count(1) >= 30


def test_small_sites_are_filled_by_hand() -> None:
    counts = np.array([[3, 0, 1], [50, 0, 2], [0, 80, 30], [0, 0, 0]])
    # site 0: 6 of class 0 from site 1, the only one that has it; site 3 holds none: class 1 of site 2, the largest
    filled = fill_up(counts, 10)
    assert filled.tolist() == [[9, 0, 1], [44, 0, 2], [0, 70, 30], [0, 10, 0]]
    assert counts[0].tolist() == [3, 0, 1]


def test_a_site_gives_only_what_it_can_spare() -> None:
    # class 0 of site 1 down to the least; then class 1, which only site 2 has; then anything
    assert fill_up(np.array([[1, 1, 0], [12, 0, 0], [0, 3, 30]]), 10).tolist() == [[3, 4, 3], [10, 0, 0], [0, 0, 27]]


def test_quantity_sizes_differ_and_labels_do_not() -> None:
    pool = pool_of([5000, 5000])
    counts = own_counts(divided(pool, "quantity:0.5", split="stratified", sites=8), pool, 2)
    sizes = counts.sum(axis=1)
    assert sizes.max() > 3 * sizes.min()
    large = counts[sizes > 300]
    assert np.abs(large[:, 0] / large.sum(axis=1) - 0.5).max() < 0.1
    assert "leave --per-site out" in refused([500, 500], "quantity:1", sites=3, per_site=20)


@pytest.mark.parametrize(("sites", "k", "classes"), [(100, 2, 10), (3, 4, 10), (7, 3, 5), (4, 5, 5), (1, 1, 3)])
def test_pathological_sites_have_exactly_k_classes(sites: int, k: int, classes: int) -> None:
    pool = pool_of([400] * classes)
    partition = divided(pool, f"pathological:{k}", split="stratified", sites=sites, validation_share=0.1)
    counts = own_counts(partition, pool, classes)
    assert (np.count_nonzero(counts, axis=1) == k).all()
    assert (np.count_nonzero(own_counts(partition, pool, classes, "test"), axis=1) == k).all()
    holders = np.count_nonzero(counts, axis=0)
    assert holders.max() - holders.min() <= 1
    assert holders.min() >= (1 if sites * k >= classes else 0)


def test_pathological_pairs_of_classes_are_drawn() -> None:
    pool = pool_of([400] * 10)
    counts = own_counts(divided(pool, "pathological:2", split="stratified", sites=50), pool, 10)
    assert len({tuple(np.flatnonzero(row)) for row in counts}) > 10


def test_pathological_names_the_class_that_cannot_feed_its_holders() -> None:
    told = refused([100, 3, 100], "pathological:3", sites=2)
    assert "class 1 (kind 1) has 3 records for 2 sites that hold it, 2 each" in told
    assert "K from 1 to 3" in refused([9, 9, 9], "pathological:4", sites=2)
    assert "2 training records a site cannot have 3 classes" in refused(
        [99, 99, 99], "pathological:3", sites=2, per_site=2
    )


def test_fedpac_groups_are_those_of_the_published_code() -> None:
    groups = [Fedpac(20, 3).dominant(i, 10).tolist() for i in range(6)]
    assert groups == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8], [8, 9, 0], [0, 1, 2]]
    assert [Fedpac(20, 1).dominant(i, 3).tolist() for i in range(4)] == [[0], [1], [2], [0]]
    assert sorted(Fedpac(0, 3).dominant(1, 3).tolist()) == [0, 1, 2]


def test_fedpac_on_its_own_numbers() -> None:
    """600 records: 120 uniform over 10 classes, 480 over 3 dominant ones: 12 and 172; tests by the same numbers."""
    pool = pool_of([6000] * 10, [1000] * 10)
    partition = divided(pool, "fedpac:20:3", sites=20)
    expected = np.full((20, 10), 12)
    for site in range(20):
        expected[site, Fedpac(20, 3).dominant(site, 10)] = 172
    assert (own_counts(partition, pool, 10) == expected).all()
    assert (own_counts(partition, pool, 10, "test") == expected).all()
    assert partition.tests_overlap  # 12,000 of 10,000


def test_fedpac_names_the_class_that_runs_out() -> None:
    told = refused([300, 300, 100], "fedpac:50:1", sites=3, per_site=96, test_share=0.1)
    assert "class 2 (kind 2), there are 100" in told
    assert "K from 1 to 3" in refused([9, 9, 9], "fedpac:20:4", sites=2)


def test_feature_shift_is_iid_with_a_shift_for_each_site() -> None:
    pool = pool_of([80, 80], shape=(1, 4, 4))
    shifted = divided(pool, "feature-shift", split="stratified", sites=8)
    plain = divided(pool, "iid", split="stratified", sites=8)
    shifts = [rows.shift or Shift() for rows in shifted.sites.values()]
    for one, other in zip(shifted.sites.values(), plain.sites.values(), strict=True):
        assert one.train.tolist() == other.train.tolist()
        assert other.shift is None
    assert sorted(shift.quarter_turns for shift in shifts) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len({shift.gain for shift in shifts}) == 8
    assert all(2**-0.5 <= shift.gain <= 2**0.5 and abs(shift.offset) <= 0.25 for shift in shifts)
    assert all(shift.gain == round(shift.gain, 4) for shift in shifts)


@pytest.mark.parametrize("shape", [(3,), (1, 4, 5), (4, 4)])
def test_only_square_images_are_turned(shape: tuple[int, ...]) -> None:
    partition = divided(pool_of([80, 80], shape=shape), "feature-shift", split="stratified", sites=8)
    assert all(rows.shift is not None and rows.shift.quarter_turns == 0 for rows in partition.sites.values())
