"""Relation and heads from noisy sums: who is marked, cosines without the noise's share, both forms, no noise."""

from dataclasses import replace
from math import sqrt
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.aggregation import heads as plain_heads
from secureproto.aggregation import noisy_relation as module
from secureproto.aggregation.noisy import NoisyOptions
from secureproto.aggregation.noisy_relation import (
    mix_linear_noisy,
    noisy_relation,
    noisy_representations,
    noisy_rows,
    personalise_noisy,
)
from secureproto.aggregation.options import Normalisation, Options
from secureproto.aggregation.relation import relation_matrix, representations
from secureproto.privacy.mechanisms.grid import PrototypeGrid

F64 = NDArray[np.float64]
NO_NOISE = 1e-12


def noisy_of(noise: float, *, classes: int = 3, width: int = 4, **changes: Any) -> NoisyOptions:
    plain = Options(normalisation="row_sum")
    grid = PrototypeGrid(classes, width, radius=1.0, count_weight=0.5, noise_multiplier=noise)
    return NoisyOptions(grid, **{"options": plain, **changes})


def sums_of(seed: int, *, sites: int = 6, signed: bool = False, empty: float = 0.2) -> F64:
    numbers = np.random.default_rng(seed)
    counts = numbers.integers(1, 61, (sites, 3)) * (numbers.random((sites, 3)) > empty)
    counts[counts.sum(axis=1) == 0, 0] = 5
    means = numbers.normal(size=(sites, 3, 4)) / 4
    means = means if signed else np.abs(means)
    return np.concatenate([means * counts[..., None], counts[..., None].astype(np.float64)], axis=2)


def all_of(sums: F64) -> NDArray[np.bool_]:
    return np.ones(len(sums), dtype=bool)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("share", [None, 0.5])
@pytest.mark.parametrize("normalisation", ["row_sum", "power", "softmax", "evidence"])
def test_without_noise_relation_and_heads_are_the_methods(
    normalisation: Normalisation, share: float | None, signed: bool
) -> None:
    options = Options(normalisation=normalisation, power=3, temperature=0.2, max_peer_share=share)
    sums = sums_of(4, signed=signed)
    sums[2] = 0  # a site without records
    heads = np.random.default_rng(1).normal(size=(6, 7))
    noisy = noisy_of(NO_NOISE, options=options, non_negative=not signed, min_peers=1)
    expected = relation_matrix(representations(sums, "prior"), options, sums[:, :, -1].mean(axis=1))
    found, _ = noisy_relation(sums, noisy, comparable=all_of(sums))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    mixed = personalise_noisy(sums, heads, noisy, comparable=all_of(sums))
    np.testing.assert_allclose(mixed.heads, plain_heads.personalise(sums, heads, options).heads, atol=1e-9)


def _federation(seed: int, *, snr_squared: list[float], width: int = 200) -> tuple[F64, F64, NoisyOptions]:
    """Exact and noisy class sums of sites, pairwise cosine 0.8, of the given signal-to-noise ratios."""
    numbers = np.random.default_rng(seed)
    noisy = noisy_of(2.0, classes=3, width=width)
    entries = 3 * width
    common, own = numbers.normal(size=entries), numbers.normal(size=(len(snr_squared), entries))
    own -= (own @ common)[:, None] * common / (common @ common)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    mean = sqrt(0.8) * common / np.linalg.norm(common) + sqrt(0.2) * own
    length = np.sqrt(np.array(snr_squared) * entries) * noisy.grid.sum_noise
    exact = (mean * length[:, None]).reshape(-1, 3, width)
    with_noise = exact + numbers.normal(scale=noisy.grid.sum_noise, size=exact.shape)
    counts = np.full((len(snr_squared), 3, 1), 500.0)
    return np.concatenate([exact, counts], axis=2), np.concatenate([with_noise, counts], axis=2), noisy


def test_cosines_do_not_shrink_with_the_noise() -> None:
    exact, sums, noisy = _federation(0, snr_squared=[2.0] * 12)
    found = noisy_representations(sums, noisy, comparable=all_of(sums))
    assert not found.marked.any()
    others = ~np.eye(12, dtype=bool)
    true = (representations(exact, "prior") @ representations(exact, "prior").T)[others].mean() / (
        np.linalg.norm(representations(exact, "prior")[0]) ** 2
    )
    cosines = (found.unit @ found.unit.T)[others].mean()
    assert cosines == pytest.approx(true, abs=0.03)
    raw = representations(sums, "prior")
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    assert (raw @ raw.T)[others].mean() == pytest.approx(true * 2 / 3, abs=0.03)  # SNR² / (1 + SNR²)
    relation, _ = noisy_relation(sums, noisy, comparable=all_of(sums))
    expected = relation_matrix(representations(exact, "prior"), Options(normalisation="row_sum"))
    np.testing.assert_allclose(relation, expected, atol=0.02)


def test_a_site_of_too_little_signal_is_marked_and_keeps_its_own_head() -> None:
    _, sums, noisy = _federation(1, snr_squared=[4.0, 4.0, 0.3, 4.0, 0.0])
    heads = np.random.default_rng(1).normal(size=(5, 7))
    mixed = personalise_noisy(sums, heads, noisy, comparable=all_of(sums))
    assert mixed.marked.tolist() == [False, False, True, False, True]
    assert mixed.relation is not None
    assert mixed.relation[[2, 4]].tolist() == np.eye(5)[[2, 4]].tolist()
    assert (mixed.relation[[0, 1, 3]][:, [2, 4]] == 0).all()
    assert (mixed.relation[[0, 1, 3]][:, [0, 1, 3]] > 0.2).all()
    assert mixed.heads[[2, 4]].tolist() == heads[[2, 4]].tolist()


@pytest.mark.parametrize(("share", "marked"), [(0.9, True), (1.1, False)])
def test_the_mark_is_at_a_signal_as_great_as_the_noise(share: float, marked: bool) -> None:
    noisy = noisy_of(2.0, classes=1, width=4)
    energy = 4 * noisy.grid.sum_noise**2
    sums = np.array([[[sqrt((1 + share) * energy), 0, 0, 0, 100.0]]])
    assert noisy_representations(sums, noisy, comparable=np.array([True])).marked.tolist() == [marked]


def test_a_release_of_another_version_is_compared_with_none() -> None:
    _, sums, noisy = _federation(2, snr_squared=[9.0] * 4)
    comparable = np.array([True, False, True, True])
    relation, marked = noisy_relation(sums, noisy, comparable=comparable)
    assert not marked.any()
    assert relation[1].tolist() == [0, 1, 0, 0]
    assert (relation[[0, 2, 3], 1] == 0).all()
    sums[1] = 0  # a site that never released is not marked, for it had no signal to show
    assert not noisy_relation(sums, noisy, comparable=comparable)[1].any()


def test_a_bounded_row_needs_three_peers() -> None:
    _, sums, free = _federation(3, snr_squared=[9.0] * 4)
    bounded = replace(free, options=replace(free.options, max_peer_share=0.5))
    relation, _ = noisy_relation(sums, bounded, comparable=all_of(sums))
    assert (relation > 0.1).all()
    three, _ = noisy_relation(sums[:3], bounded, comparable=all_of(sums[:3]))
    assert three.tolist() == np.eye(3).tolist()
    assert (noisy_relation(sums[:3], free, comparable=all_of(sums[:3]))[0] > 0.1).all()
    open_ = replace(free, options=replace(free.options, max_peer_share=1.0))
    assert (noisy_relation(sums[:3], open_, comparable=all_of(sums[:3]))[0] > 0.1).all()


def test_a_forged_representation_gets_no_more_than_its_share_of_a_row() -> None:
    sums = sums_of(5, empty=0.0)
    sums[5] = sums[0] * 50
    noisy = noisy_of(NO_NOISE, options=Options(normalisation="power", power=400, max_peer_share=0.5))
    relation, _ = noisy_relation(sums, noisy, comparable=all_of(sums))
    for site in (0, 5):
        peers = np.delete(relation[site], site)
        assert peers.max() <= 0.5 * peers.sum() * (1 + 1e-9) + 1e-300
    assert relation[5, 0] < 0.05


@pytest.mark.parametrize("normalisation", ["power", "softmax"])
def test_a_cosine_over_one_is_cut_before_it_is_sharpened(normalisation: Literal["power", "softmax"]) -> None:
    options = Options(normalisation=normalisation, power=64, temperature=0.01)
    unit = np.array([[1.2, 0.0], [1.1, 0.1], [1.0, 0.0]])
    rows = noisy_rows(unit, noisy_of(1.0, classes=1, width=2, options=options), start=0, stop=3)
    np.testing.assert_allclose(rows, np.full((3, 3), 1 / 3), atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_both_forms_agree_when_noise_is_clipped_at_zero(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    noisy = noisy_of(6.0, non_negative=True)
    sums = sums_of(seed, sites=30)
    sums[:, :, :-1] += numbers.normal(scale=noisy.grid.sum_noise, size=sums[:, :, :-1].shape)
    assert (sums[:, :, :-1] < 0).any()
    heads = numbers.normal(size=(30, 7))
    comparable = numbers.random(30) > 0.2
    forms = {
        form: personalise_noisy(
            sums, heads, replace(noisy, options=replace(noisy.options, form=form)), comparable=comparable
        )
        for form in ("matrix", "linear", "auto")
    }
    assert {name: mixed.form for name, mixed in forms.items()} == {
        "matrix": "matrix",
        "linear": "linear",
        "auto": "linear",
    }
    assert 2 < forms["linear"].marked.sum() < 28
    np.testing.assert_allclose(forms["linear"].heads, forms["matrix"].heads, atol=1e-10)
    assert (forms["linear"].heads == forms["auto"].heads).all()
    unit = noisy_representations(sums, noisy, comparable=comparable).unit
    assert mix_linear_noisy(unit, heads, block_bytes=200) == pytest.approx(forms["linear"].heads, abs=1e-12)


def test_the_linear_form_is_not_taken_of_signed_embeddings_nor_of_a_negative_entry() -> None:
    sums, heads = sums_of(1, sites=30, signed=True), np.ones((30, 7))
    assert personalise_noisy(sums, heads, noisy_of(NO_NOISE), comparable=all_of(sums)).form == "matrix"
    with pytest.raises(ValueError, match="negative"):
        mix_linear_noisy(np.array([[0.5, -1e-9]]), heads[:1])
    with pytest.raises(ValueError, match="linear"):
        noisy_of(1.0, options=Options(normalisation="row_sum", form="linear"))


def test_many_sites_are_mixed_by_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sums, heads = sums_of(6, sites=23), np.random.default_rng(0).normal(size=(23, 7))
    noisy = noisy_of(0.5, options=Options(normalisation="evidence", max_peer_share=0.5))
    whole = personalise_noisy(sums, heads, noisy, comparable=all_of(sums))
    monkeypatch.setattr(module, "RELATION_KEPT", 22)
    monkeypatch.setattr(module, "BLOCK_BYTES", 8 * 23 * 5)
    parts = personalise_noisy(sums, heads, noisy, comparable=all_of(sums))
    assert whole.relation is not None
    assert parts.relation is None
    np.testing.assert_allclose(parts.heads, whole.heads, atol=1e-12)


def test_extreme_sums_overflow_nothing() -> None:
    sums = sums_of(7)
    sums[0] *= 1e90
    sums[1, :, :-1] *= 1e-90
    relation, marked = noisy_relation(sums, noisy_of(0.01), comparable=all_of(sums))
    assert np.isfinite(relation).all()
    assert marked.tolist() == [False, True, False, False, False, False]


def test_arrays_that_do_not_fit_are_our_own_mistake() -> None:
    sums = sums_of(0)
    with pytest.raises(ValueError, match="heads"):
        personalise_noisy(sums, np.ones((5, 7)), noisy_of(1.0), comparable=all_of(sums))
    with pytest.raises(ValueError, match="comparable"):
        noisy_relation(sums, noisy_of(1.0), comparable=np.ones(5, dtype=bool))
