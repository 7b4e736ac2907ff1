"""Properties of the server side that hold for every round, and the fast path against the plain-Python oracle."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secureproto.aggregation.heads import mix, mix_by_rows, mix_linear, personalise
from secureproto.aggregation.options import Options
from secureproto.aggregation.prototypes import GlobalPrototypes, combine
from secureproto.aggregation.relation import (
    cap_peer_share,
    relation_matrix,
    relation_rows,
    representations,
    unit_rows,
)
from secureproto.aggregation.round import RoundResult
from support.uploads import F64, Shape, class_sums, federation

SEEDS = st.integers(0, 2**32 - 1)
SHARES = st.one_of(st.none(), st.sampled_from([0.01, 0.25, 1 / 3, 0.5, 0.8, 1.0]), st.floats(0.02, 1.0))
SHAPES = st.builds(
    Shape, sites=st.integers(1, 12), classes=st.integers(2, 5), width=st.integers(1, 6), head=st.integers(2, 8)
)
SHARP = st.sampled_from([0.5, 1.0, 4.0, 64.0])
OPTIONS = st.builds(
    Options,
    weighting=st.sampled_from(["samples", "uniform"]),
    min_holders=st.integers(1, 4),
    representation=st.sampled_from(["presence", "prior"]),
    normalisation=st.sampled_from(["row_sum", "power", "softmax", "evidence"]),
    power=SHARP,
    temperature=st.sampled_from([1.0, 0.1, 0.02, 1e-9]),
    evidence_scale=st.sampled_from([0.2, 0.8, 6.0]),
    max_peer_share=SHARES,
)


def _sums(seed: int, shape: Shape, *, signed: bool = True, empty: float = 0.3) -> F64:
    return class_sums(np.random.default_rng(seed), shape, signed=signed, empty=empty)


def records(sums: F64) -> F64:
    """Records a class of each site, (m,)."""
    total: F64 = sums[:, :, -1].sum(axis=1) / sums.shape[1]
    return total


def _close(found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0.0) <= tolerance * max(1.0, np.abs(expected).max(initial=0.0))


def _bits(result: RoundResult) -> list[bytes]:
    heads = [result.heads[site].tobytes() for site in sorted(result.heads)]
    extractor = [result.extractor[name].tobytes() for name in sorted(result.extractor)]
    relation = b"" if result.relation is None else result.relation.tobytes()
    prototypes = [result.prototypes.values.tobytes(), result.prototypes.age.tobytes()]
    return [*heads, *extractor, relation, *prototypes, result.mean_head.tobytes(), repr(result.loss).encode()]


@given(seed=SEEDS, shape=SHAPES, options=OPTIONS, empty=st.sampled_from([0.0, 0.3, 0.8]), signed=st.booleans())
def test_a_round_is_what_the_oracle_says(
    seed: int, shape: Shape, options: Options, empty: float, signed: bool
) -> None:
    # the oracle divides where the fast path need not: a temperature of 1e-9 turns its rounding into weight
    options = replace(options, temperature=max(options.temperature, 0.02))
    round_ = federation(seed, shape, signed=signed, empty=empty)
    fast, slow = round_.run(options), round_.run_slowly(options)
    _close(fast.prototypes.values, np.array(slow.prototypes), 1e-12)
    assert fast.prototypes.age.tolist() == slow.age
    floats = [fast.extractor["extractor.weight"].ravel(), fast.extractor["extractor.bias"].ravel()]
    _close(np.concatenate(floats), np.array(slow.extractor), 1e-12)
    assert fast.relation is not None or fast.form == "linear"
    if fast.relation is not None:
        _close(fast.relation, np.array(slow.relation), 1e-10)
    heads = np.array(slow.heads)
    _close(np.array([fast.heads[site] for site in sorted(round_.uploads)]), heads, 1e-10)
    _close(fast.mean_head, heads.mean(axis=0), 1e-10)


@settings(max_examples=40)
@given(seed=SEEDS, shape=SHAPES, options=OPTIONS, order=st.randoms(use_true_random=False), cut=st.integers(1, 200))
def test_the_order_of_arrival_and_the_cuts_of_the_streams_change_no_bit(
    seed: int, shape: Shape, options: Options, order: Any, cut: int
) -> None:
    first = federation(seed, shape, reports_loss=True)
    sites = list(first.uploads)
    order.shuffle(sites)
    second = replace(first, uploads={site: first.uploads[site] for site in sites})
    assert _bits(first.run(options)) == _bits(second.run(options, cut=cut))


@given(seed=SEEDS, shape=SHAPES, options=OPTIONS, signed=st.booleans())
def test_rows_are_a_distribution_and_share_is_bounded(
    seed: int, shape: Shape, options: Options, signed: bool
) -> None:
    sums = _sums(seed, shape, signed=signed)
    values = representations(sums, options.representation)
    relation = relation_matrix(values, options, records(sums))
    assert (relation >= 0).all()
    _close(relation.sum(axis=1), np.ones(shape.sites), 1e-12)
    zero = ~values.any(axis=1)
    assert (relation[zero] == np.eye(shape.sites)[zero]).all()
    if options.max_peer_share is not None:
        peers = relation - np.diag(np.diag(relation))
        bound = options.max_peer_share * peers.sum(axis=1, keepdims=True)
        assert (peers <= bound * (1 + 1e-9) + 1e-300).all()


@given(seed=SEEDS, shape=SHAPES, options=OPTIONS, share=st.floats(0.02, 1.0))
def test_the_bound_takes_from_peers_only_what_it_must(
    seed: int, shape: Shape, options: Options, share: float
) -> None:
    sums = _sums(seed, shape)
    values = representations(sums, options.representation)
    free = relation_matrix(values, replace(options, max_peer_share=None), records(sums))
    capped = free.copy()
    cap_peer_share(capped, share)
    others = ~np.eye(shape.sites, dtype=bool)
    assert (capped[others] <= free[others]).all()
    for row, (before, after) in enumerate(zip(free, capped, strict=True)):
        before, after = np.delete(before, row), np.delete(after, row)
        cut = after < before
        if not cut.any():
            continue
        # all that were cut stand at one level, nobody kept stands above it
        level = after[cut].max()
        assert level - after[cut].min() <= 1e-12 * level
        assert (after <= level).all()
        if level > 0:
            assert level == pytest.approx(share * after.sum(), rel=1e-9) or cut.sum() == (before > 0).sum() - 1
        else:
            assert share * (before > 0).sum() < 1


@given(seed=SEEDS, shape=SHAPES, options=OPTIONS, order=st.randoms(use_true_random=False))
def test_renaming_the_sites_permutes_the_result(seed: int, shape: Shape, options: Options, order: Any) -> None:
    options = replace(options, temperature=max(options.temperature, 0.02))
    sums = _sums(seed, shape)
    heads = np.random.default_rng(seed).normal(size=(shape.sites, shape.head))
    permutation = list(range(shape.sites))
    order.shuffle(permutation)
    straight = personalise(sums, heads, options).heads[permutation]
    _close(personalise(sums[permutation], heads[permutation], options).heads, straight, 1e-10)
    previous = GlobalPrototypes.absent(shape.classes, shape.width)
    kinds: dict[str, Any] = {"weighting": options.weighting, "min_holders": options.min_holders}
    one, two = combine(sums, previous, **kinds), combine(sums[permutation], previous, **kinds)
    _close(one.values, two.values, 1e-12)
    assert one.age.tolist() == two.age.tolist()


@given(seed=SEEDS, shape=SHAPES, options=OPTIONS, scale=st.sampled_from([1e-90, 1e-5, 7.0, 1e90]))
def test_scaling_one_sites_representation_changes_no_relation(
    seed: int, shape: Shape, options: Options, scale: float
) -> None:
    options = replace(options, temperature=max(options.temperature, 0.02))
    values = representations(_sums(seed, shape), options.representation)
    scaled = values.copy()
    scaled[0] *= scale
    known = np.full(shape.sites, 30.0)  # what is scaled is the representation, not the number of records
    _close(relation_matrix(scaled, options, known), relation_matrix(values, options, known), 1e-10)


@given(seed=SEEDS, shape=SHAPES, representation=st.sampled_from(["presence", "prior"]), block=st.integers(1, 400))
def test_linear_and_matrix_form_are_one_function(seed: int, shape: Shape, representation: Any, block: int) -> None:
    values = representations(_sums(seed, shape, signed=False), representation)
    heads = np.random.default_rng(seed).normal(size=(shape.sites, shape.head))
    expected = mix(relation_matrix(values, Options(normalisation="row_sum")), heads)
    _close(mix_linear(values, heads), expected, 1e-10)
    _close(mix_linear(values, heads, block_bytes=block), expected, 1e-10)


@given(seed=SEEDS, shape=SHAPES, options=OPTIONS, block=st.integers(1, 400))
def test_blocks_of_rows_are_rows_of_the_whole(seed: int, shape: Shape, options: Options, block: int) -> None:
    options = replace(options, temperature=max(options.temperature, 0.02))
    sums = _sums(seed, shape)
    values, known = representations(sums, options.representation), records(sums)
    whole = relation_matrix(values, options, known)
    unit = unit_rows(values)
    for site in range(shape.sites):
        row = relation_rows(unit, options, start=site, stop=site + 1, records=known)
        _close(row, whole[site : site + 1], 1e-11)
    heads = np.random.default_rng(seed).normal(size=(shape.sites, shape.head))
    _close(mix_by_rows(values, heads, options, records=known, block_bytes=block), mix(whole, heads), 1e-11)


@given(seed=SEEDS, shape=SHAPES, options=OPTIONS, rounds=st.integers(1, 4))
def test_a_class_is_renewed_or_carried_with_its_age(seed: int, shape: Shape, options: Options, rounds: int) -> None:
    now = GlobalPrototypes.absent(shape.classes, shape.width)
    for turn in range(rounds):
        sums = _sums(seed + turn, shape, empty=0.6)
        after = combine(sums, now, weighting=options.weighting, min_holders=options.min_holders)
        renewed = (sums[:, :, -1] > 0).sum(axis=0) >= options.min_holders
        assert (after.age[renewed] == 0).all()
        kept = ~renewed & now.present
        assert (after.age[kept] == now.age[kept] + 1).all()
        assert (after.values[kept] == now.values[kept]).all()
        assert (after.age[~renewed & ~now.present] == -1).all()
        means = representations(sums, "presence").reshape(shape.sites, shape.classes, shape.width)
        for j in np.flatnonzero(renewed):
            held = means[sums[:, j, -1] > 0, j]
            assert (after.values[j] <= held.max(axis=0) + 1e-9).all()
            assert (after.values[j] >= held.min(axis=0) - 1e-9).all()
        now = after
