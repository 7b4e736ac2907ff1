"""The relation by hand: normalisations, identity rows, the bound on one peer's share."""

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.aggregation.options import Options
from secureproto.aggregation.relation import (
    cap_peer_share,
    cosines,
    relation_matrix,
    relation_rows,
    representations,
    unit_rows,
)

F64 = NDArray[np.float64]
# v0 ⟂ v1, v2 opposite to v0 and at 45° to v1 … v3 is zero
VALUES = np.array([[2.0, 0.0], [0.0, 3.0], [-1.0, 1.0], [0.0, 0.0]])


def _cap(row: list[float], share: float, start: int = 0) -> F64:
    rows: F64 = np.array([row])
    cap_peer_share(rows, share, start=start)
    return rows.reshape(-1)


def test_prior_is_presence_scaled_by_the_class_prior() -> None:
    class_sums = np.array([[[2.0, 4.0, 2], [9.0, 3.0, 6], [0.0, 0.0, 0]]])
    assert representations(class_sums, "presence").tolist() == [[1.0, 2.0, 1.5, 0.5, 0.0, 0.0]]
    prior = representations(class_sums, "prior")
    np.testing.assert_allclose(prior / 8, [[0.25, 0.5, 9 / 8, 3 / 8, 0.0, 0.0]], rtol=1e-15)


def test_cosines_of_zero_and_of_extreme_rows() -> None:
    found = cosines(np.array([[1e-300, 0.0], [1e90, 1e90], [0.0, 0.0], [5e-324, 0.0]]))
    half = 0.5**0.5
    np.testing.assert_allclose(
        found, [[1, half, 0, 1], [half, 1, 0, half], [0, 0, 0, 0], [1, half, 0, 1]], rtol=1e-15, atol=0
    )


def test_row_sum_clips_negative_cosines() -> None:
    found = relation_matrix(VALUES, Options(normalisation="row_sum"))
    half = 0.5**0.5
    np.testing.assert_allclose(found[0], [1, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(found[1], [0, 1 / (1 + half), half / (1 + half), 0], atol=1e-15)


def test_power_sharpens() -> None:
    found = relation_matrix(VALUES, Options(normalisation="power", power=4))
    np.testing.assert_allclose(found[1], [0, 0.8, 0.2, 0], atol=1e-15)


def test_softmax_gives_a_zero_representation_the_weight_of_cosine_zero() -> None:
    found = relation_matrix(VALUES, Options(normalisation="softmax", temperature=0.5))
    weights = np.exp(np.array([0, 1, 0.5**0.5, 0]) / 0.5)
    np.testing.assert_allclose(found[1], weights / weights.sum(), atol=1e-15)


def test_evidence_is_softmax_with_a_temperature_of_each_sites_own() -> None:
    records = np.array([4.0, 100.0, 2500.0, 0.0])
    found = relation_matrix(VALUES, Options(normalisation="evidence", evidence_scale=2.0), records)
    for row, temperature in ((0, 1.0), (1, 0.2), (2, 0.04)):
        alike = relation_matrix(VALUES, Options(normalisation="softmax", temperature=temperature))
        np.testing.assert_allclose(found[row], alike[row], atol=1e-15)


def test_the_more_records_the_more_a_site_prefers_those_like_itself() -> None:
    options = Options(normalisation="evidence")
    own = [relation_matrix(VALUES[:3], options, np.full(3, float(n)))[1, 1] for n in (1, 30, 600, 10_000)]
    assert own == sorted(own)
    assert own[0] < 0.6
    assert own[-1] > 0.99
    none = relation_matrix(VALUES[:3], options, np.array([0.0, -4.0, 0.0]))  # a noisy count may be negative
    np.testing.assert_allclose(none, np.full((3, 3), 1 / 3), atol=1e-4)


def test_evidence_needs_the_numbers_of_records() -> None:
    with pytest.raises(ValueError, match="records a class"):
        relation_matrix(VALUES, Options(normalisation="evidence"))


@pytest.mark.parametrize("normalisation", ["row_sum", "power", "softmax"])
def test_a_zero_representation_gets_the_identity_row(normalisation: str) -> None:
    options = {
        "row_sum": Options(normalisation="row_sum"),
        "power": Options(normalisation="power", power=2),
        "softmax": Options(normalisation="softmax", max_peer_share=0.9),
    }[normalisation]
    assert relation_matrix(VALUES, options)[3].tolist() == [0, 0, 0, 1]
    assert relation_rows(unit_rows(VALUES), options, start=2, stop=4)[1].tolist() == [0, 0, 0, 1]


def test_a_vanishing_temperature_is_the_nearest_site_and_not_nan() -> None:
    found = relation_matrix(VALUES[:3], Options(normalisation="softmax", temperature=1e-308))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, np.eye(3), atol=1e-15)


def test_a_row_within_the_bound_is_left_to_the_last_bit() -> None:
    row = [0.4, 0.3, 0.2, 0.1]
    assert _cap(row, 0.5).tolist() == row
    third = [0.1, 0.3, 0.3, 0.3]
    assert _cap(third, 1 / 3).tolist() == third
    assert _cap([0.25, 0.75, 0.0], 1.0).tolist() == [0.25, 0.75, 0.0]


def test_one_greedy_peer_is_cut_to_what_the_others_carry() -> None:
    # t = 0.5 · (t + 0.1 + 0.1): the others keep theirs, the great one gets as much as they have together
    np.testing.assert_allclose(_cap([0.2, 0.6, 0.1, 0.1], 0.5), [0.6, 0.2, 0.1, 0.1], atol=1e-15)
    # t = 0.4 · (2 t + 0.1)
    np.testing.assert_allclose(_cap([0.1, 0.5, 0.3, 0.1], 0.4), [0.5, 0.2, 0.2, 0.1], atol=1e-15)


def test_a_forged_row_gets_next_to_nothing_of_the_head_it_aims_at() -> None:
    capped = _cap([0.5, 0.5 - 2e-9, 1e-9, 1e-9], 0.5)
    assert capped[0] == pytest.approx(1, abs=1e-8)
    assert capped[1] <= 0.5 * capped[1:].sum() * (1 + 1e-9)


@pytest.mark.parametrize(
    ("row", "share"),
    [([0.3, 0.7], 0.5), ([0.3, 0.7], 0.999), ([0.2, 0.7, 0.1], 0.49), ([0.2, 0.8, 0.0, 0.0], 0.5)],
)
def test_fewer_peers_than_the_bound_needs_give_the_identity_row(row: list[float], share: float) -> None:
    assert _cap(row, share).tolist() == [1.0] + [0.0] * (len(row) - 1)


def test_just_enough_peers_come_down_to_the_least() -> None:
    np.testing.assert_allclose(_cap([0.1, 0.7, 0.2], 0.5), [0.6, 0.2, 0.2], atol=1e-12)


def test_a_site_alone_stays_itself() -> None:
    assert _cap([1.0], 0.5).tolist() == [1.0]
    assert relation_matrix(np.array([[1.0, 2.0]]), Options(normalisation="row_sum", max_peer_share=0.5)).tolist() == [
        [1.0]
    ]


def test_the_bound_knows_whose_row_it_is() -> None:
    np.testing.assert_allclose(_cap([0.6, 0.2, 0.1, 0.1], 0.5, start=1), [0.2, 0.6, 0.1, 0.1], atol=1e-15)
