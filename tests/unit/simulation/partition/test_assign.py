"""From a pool to a partition: test parts, sizes, validation parts, and what is refused."""

from typing import Any

import numpy as np
import pytest

from secureproto.errors import Misconfigured
from secureproto.simulation.partition.assign import draw
from secureproto.simulation.partition.division import Divisions, Options, Partition
from secureproto.simulation.partition.given import proportional_tests
from secureproto.simulation.partition.scheme import Ground
from secureproto.simulation.partition.spec import parse
from secureproto.simulation.population import Pool
from support.partitions import divided, names, own_counts, pool_of


def refused(pool: Pool, text: str, **options: Any) -> str:
    with pytest.raises(Misconfigured) as caught:
        divided(pool, text, **options)
    return f"{caught.value.message} | {caught.value.hint}"


def all_rows(partition: Partition) -> list[list[int]]:
    return [[*rows.train, *rows.test, *rows.validation] for rows in partition.sites.values()]


def test_given_tests_are_held_out_and_follow_the_site() -> None:
    pool = pool_of([600] * 4, [100] * 4)
    partition = divided(pool, "dirichlet:0.3", sites=5)
    assert pool.held_out is not None
    train, test = own_counts(partition, pool, 4), own_counts(partition, pool, 4, "test")
    assert train.sum() == 2400
    for rows in partition.sites.values():
        assert pool.held_out[rows.test].all()
        assert not pool.held_out[rows.train].any()
    quotas = train * test.sum(axis=1, keepdims=True) / train.sum(axis=1, keepdims=True)
    assert np.abs(test - quotas).max() < 1.5
    assert not partition.tests_overlap
    assert (np.abs(test.sum(axis=1) - train.sum(axis=1) / 6) <= 2).all()


def test_given_tests_of_small_sites_are_ten_and_may_be_shared() -> None:
    pool = pool_of([100, 100], [5, 5])
    partition = divided(pool, "iid", sites=10)
    assert partition.tests_overlap
    for rows in partition.sites.values():
        larger = np.bincount(pool.records.y[rows.train]).max()
        assert len(rows.test) == min(10, 5 * 20 // larger)  # no more than five of a class are held out
        assert len(np.unique(rows.test)) == len(rows.test)


def test_records_are_shared_as_evenly_as_can_be() -> None:
    pool = pool_of([600] * 2, [30] * 2)
    partition = divided(pool, "fedpac:100:1", sites=4, per_site=30)
    _, times = np.unique(np.concatenate([rows.test for rows in partition.sites.values()]), return_counts=True)
    assert times.tolist() == [2] * 60


def test_rounding_up_shares_no_record() -> None:
    """Ten records in thirds are 4, 3 and 3 at every site: 40 of the first class, where 33 are held out."""
    pool = pool_of([100] * 3, [33] * 3)
    partition = divided(pool, "pathological:3", sites=10)
    assert not partition.tests_overlap
    assert own_counts(partition, pool, 3, "test").sum(axis=0).tolist() == [33, 30, 30]
    assert own_counts(partition, pool, 3, "test").min() == 3


def test_the_greatest_site_gives_way_first() -> None:
    labels = np.repeat(np.arange(3), 53).astype(np.int64)
    held_out = np.tile(np.arange(53) >= 40, 3)
    pool = Pool(pool_of([53] * 3).records, None, held_out)
    pool.records.y[:] = labels
    own = {"a": np.flatnonzero(np.tile(np.arange(53) < 30, 3))}
    own["b"] = np.setdiff1d(np.flatnonzero(~held_out), own["a"])
    ground = Ground(np.flatnonzero(~held_out), labels[~held_out], ("x", "y", "z"), (1,))
    tests = proportional_tests(own, pool, ground, np.random.default_rng(0), equal=False)
    # 29 of 90 are 10, 10, 9 and 10 of 30 are 4, 3, 3: 14 of the first class, where 13 are held out
    assert [np.bincount(labels[rows]).tolist() for rows in tests.values()] == [[9, 10, 9], [4, 3, 3]]


def test_an_only_test_record_is_kept_though_it_be_shared() -> None:
    partition = divided(pool_of([12, 10], [1, 1]), "pathological:2", sites=2)
    assert [len(rows.test) for rows in partition.sites.values()] == [1, 1]
    assert partition.tests_overlap


def test_nearly_equal_classes_go_round_and_a_rare_one_does_not_hold_up_the_others() -> None:
    nearly = divided(pool_of([600, 600], [100, 90]), "pathological:2", sites=4)
    assert not nearly.tests_overlap
    assert all(len(rows.test) >= 44 for rows in nearly.sites.values())
    pool = pool_of([1000, 100], [200, 2])
    rare = divided(pool, "pathological:2", sites=2)
    assert own_counts(rare, pool, 2, "test").tolist() == [[20, 2], [20, 2]]
    assert rare.tests_overlap


def test_a_class_that_is_not_held_out_is_named() -> None:
    told = refused(pool_of([50, 50], [20, 0]), "iid", sites=2)
    assert "no record of class 1 (kind 1)" in told
    assert "--split stratified" in told


def test_natural_sites_have_their_own_test_records() -> None:
    pool = pool_of([30, 30], [15, 15], sites=3)
    partition = divided(pool, "natural")
    assert pool.sites is not None
    assert pool.held_out is not None
    for site, rows in partition.sites.items():
        assert rows.test.tolist() == np.flatnonzero((pool.sites == site) & pool.held_out).tolist()
        assert rows.train.tolist() == np.flatnonzero((pool.sites == site) & ~pool.held_out).tolist()


def natural(held_out: list[bool]) -> Pool:
    pool = pool_of([2, 2])
    return Pool(pool.records, np.array(["a", "a", "b", "b"]), np.array(held_out))


def test_a_natural_site_without_a_part_is_named() -> None:
    assert "site b has no test records" in refused(natural([True, False, False, False]), "natural")
    assert "all records of site b are in the data's own test part" in refused(
        natural([True, False, True, True]), "natural"
    )


def test_what_the_data_do_not_have_is_said() -> None:
    assert "no test part of their own" in refused(pool_of([9, 9]), "iid", sites=1)
    nothing_held = Pool(pool_of([9, 9]).records, None, np.zeros(18, dtype=np.bool_))
    assert "no test part of their own" in refused(nothing_held, "iid", sites=1)
    empty = Pool(type(nothing_held.records)(np.empty((0, 1), np.float32), np.empty(0, np.int64)))
    assert "there are no records" in refused(empty, "iid", classes=2, sites=1, split="stratified")
    lonely = Pool(pool_of([2, 1]).records, np.array(["a", "a", "b"]))
    assert "site b has no test records" in refused(lonely, "natural", split="stratified")


def test_a_label_outside_the_classes_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no index of a class"):
        divided(pool_of([9, 9, 9]), "iid", classes=2, sites=1, split="stratified")


def test_stratified_divides_what_a_site_has() -> None:
    pool = pool_of([100, 60, 40], [20, 20, 20])
    partition = divided(pool, "iid", sites=1, split="stratified", test_share=0.25)
    assert own_counts(partition, pool, 3, "test").tolist() == [[30, 20, 15]]  # the given part counts as any other
    assert own_counts(partition, pool, 3).tolist() == [[90, 60, 45]]


def test_stratified_tests_every_class_of_two() -> None:
    pool = pool_of([500, 2, 1])
    partition = divided(pool, "iid", sites=1, split="stratified", test_share=0.1)
    assert own_counts(partition, pool, 3, "test").tolist() == [[49, 1, 0]]


@pytest.mark.parametrize("split", ["given", "stratified"])
@pytest.mark.parametrize("text", ["iid", "dirichlet:0.05", "pathological:2", "fedpac:20:2", "feature-shift"])
def test_a_number_of_training_records_is_exact(text: str, split: str) -> None:
    pool = pool_of([600] * 5, [200] * 5)
    partition = divided(pool, text, sites=6, per_site=70, split=split, validation_share=0.2)
    for rows in partition.sites.values():
        assert len(rows.train) + len(rows.validation) == 70
        assert len(rows.validation) == 14
        assert len(rows.test) >= 7


def test_a_number_is_exact_though_each_class_be_tested() -> None:
    partition = divided(pool_of([20] * 10), "fedpac:100:1", sites=2, per_site=20, split="stratified", test_share=0.05)
    assert [(len(rows.train), len(rows.test)) for rows in partition.sites.values()] == [(20, 10)] * 2


def test_a_number_that_a_site_does_not_have_is_refused() -> None:
    told = refused(pool_of([30, 30], sites=3), "natural", split="stratified", per_site=15)
    assert "site place-0 has 14 training records, 15 were asked for" in told


def test_validation_is_a_share_of_training_and_moves_nothing_else() -> None:
    pool = pool_of([300, 200])
    plain = divided(pool, "dirichlet:1", sites=3, split="stratified")
    chosen = divided(pool, "dirichlet:1", sites=3, split="stratified", validation_share=0.2)
    for one, other in zip(plain.sites.values(), chosen.sites.values(), strict=True):
        assert one.test.tolist() == other.test.tolist()
        assert one.train.tolist() == sorted([*other.train, *other.validation])
        assert len(one.validation) == 0
        assert abs(len(other.validation) - 0.2 * len(one.train)) <= 0.5
        counts = [np.bincount(pool.records.y[rows], minlength=2) for rows in (one.train, other.validation)]
        assert np.abs(counts[1] - 0.2 * counts[0]).max() <= 1


def test_validation_is_no_more_than_the_share_though_there_be_many_small_classes() -> None:
    pool = pool_of([40, *[4] * 10])
    partition = divided(pool, "iid", sites=1, split="stratified", test_share=0.25, validation_share=0.05)
    (rows,) = partition.sites.values()
    assert (len(rows.train), len(rows.validation), len(rows.test)) == (57, 3, 20)


@pytest.mark.parametrize(
    ("part", "options"), [("train", {"per_site": 20}), ("validation", {"validation_share": 0.2})]
)
def test_the_seed_decides_what_is_thinned_out_and_what_validates(part: str, options: dict[str, Any]) -> None:
    """Natural sites with test records of their own: nothing else is drawn."""
    pool = pool_of([90, 90], [15, 15], sites=3)
    one, same, other = (divided(pool, "natural", seed=seed, **options) for seed in (1, 1, 2))
    for site, rows in one.sites.items():
        first, again, second = (getattr(each.sites[site], part).tolist() for each in (one, same, other))
        assert first == again
        assert first != second
        assert rows.test.tolist() == other.sites[site].test.tolist()


def test_another_test_share_moves_no_record_to_another_site() -> None:
    pool = pool_of([300, 200])
    one, other = (divided(pool, "dirichlet:1", sites=3, split="stratified", test_share=s) for s in (0.2, 0.4))
    assert [sorted(rows) for rows in all_rows(one)] == [sorted(rows) for rows in all_rows(other)]


@pytest.mark.parametrize(
    "text", ["iid", "dirichlet:0.5", "pathological:1", "fedpac:20:1", "feature-shift", "quantity:1"]
)
def test_equal_seeds_draw_the_same_and_others_do_not(text: str) -> None:
    pool = pool_of([3000, 3000], [900, 900])
    one, same, other = (divided(pool, text, sites=4, seed=seed) for seed in (1, 1, 2))
    assert all_rows(one) == all_rows(same)
    assert [rows.shift for rows in one.sites.values()] == [rows.shift for rows in same.sites.values()]
    assert all_rows(one) != all_rows(other)
    for part in ("train", "test"):
        parts = [[getattr(rows, part).tolist() for rows in each.sites.values()] for each in (one, other)]
        assert parts[0] != parts[1]


def test_one_division_serves_all_seeds() -> None:
    pool = pool_of([50, 50])
    options = Options(sites=2, split="stratified", seed=4)
    divisions = draw(pool, parse("iid"), options, classes=names(2), seeds=[0, 1], repeated=False)
    assert divisions.of(0) is divisions.of(1)
    assert divisions.of(0).options.seed == 4
    assert divisions.of(0).pool == pool.digest()
    assert divisions.of(0).scheme == "iid"


def test_a_repeated_division_is_another_draw_for_each_seed() -> None:
    pool = pool_of([50, 50], sites=2)
    options = Options(split="stratified")
    divisions = draw(pool, parse("natural"), options, classes=names(2), seeds=[5, 6], repeated=True)
    five, six = divisions.of(5), divisions.of(6)
    assert [sorted(rows) for rows in all_rows(five)] == [sorted(rows) for rows in all_rows(six)]
    assert all_rows(five) != all_rows(six)
    with pytest.raises(Misconfigured, match="none was drawn for seed 7"):
        Divisions(divisions.partitions, repeated=True).of(7)


@pytest.mark.parametrize("text", ["iid", "dirichlet:0.5", "pathological:1", "quantity:1", "feature-shift"])
def test_repeated_splits_are_of_the_same_sites(text: str) -> None:
    """A site's interval over seeds is of that site: only what it tests by is drawn anew."""
    pool = pool_of([60, 60])

    def repeated(seed: int) -> list[Partition]:
        options = Options(sites=3, split="stratified", seed=seed)
        divisions = draw(pool, parse(text), options, classes=names(2), seeds=[5, 6], repeated=True)
        return [divisions.of(five_or_six) for five_or_six in (5, 6)]

    five, six = repeated(0)
    own = [{site: set(rows.train) | set(rows.test) for site, rows in each.sites.items()} for each in (five, six)]
    assert own[0] == own[1]
    assert [rows.shift for rows in five.sites.values()] == [rows.shift for rows in six.sites.values()]
    assert all(not np.array_equal(five.sites[site].test, six.sites[site].test) for site in five.sites)
    other, _ = repeated(1)
    assert {site: set(rows.train) | set(rows.test) for site, rows in other.sites.items()} != own[0]


def test_a_partition_is_a_population() -> None:
    pool = pool_of([50, 50])
    partition = divided(pool, "iid", sites=2, split="stratified", validation_share=0.1)
    data = partition.population(pool).site("site-001")
    assert data.train.x[:, 0].tolist() == partition.sites["site-001"].train.tolist()
    assert data.validation is not None
    assert data.validation.x[:, 0].tolist() == partition.sites["site-001"].validation.tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sites": 0}, "sites is 0; allowed: at least 1"),
        ({"per_site": 0}, "per_site is 0"),
        ({"split": "random"}, "split is random; allowed: given or stratified"),
        ({"test_share": 0.0}, "test_share is 0.0; allowed: over 0 and under 1"),
        ({"test_share": 1.0}, "test_share"),
        ({"test_share": float("nan")}, "test_share"),
        ({"validation_share": 1.0}, "validation_share"),
        ({"validation_share": -0.1}, "validation_share"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**53}, "seed"),
        ({"minimum": 0}, "minimum"),
    ],
)
def test_options_have_bounds(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        Options(**options)
