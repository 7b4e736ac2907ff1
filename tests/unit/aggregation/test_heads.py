"""Mixed heads: which form is taken, when the linear one is refused, who keeps a head, what a late joiner gets."""

import tracemalloc

import numpy as np
import pytest

from secureproto.aggregation.heads import (
    RELATION_KEPT,
    after_round,
    linear_is_cheaper,
    mean_head,
    mix_by_rows,
    mix_linear,
    personalise,
)
from secureproto.aggregation.options import Options
from secureproto.aggregation.relation import representations
from support.uploads import Shape, class_sums

MANY = Shape(sites=40, classes=2, width=2, head=3)


def _inputs(shape: Shape, *, signed: bool) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]:
    generator = np.random.default_rng(5)
    sums = class_sums(generator, shape, signed=signed, empty=0.3)
    return sums, generator.normal(size=(shape.sites, shape.head))


def test_auto_takes_the_linear_form_where_it_is_the_same_and_cheaper() -> None:
    sums, heads = _inputs(MANY, signed=False)
    auto = personalise(sums, heads, Options(normalisation="row_sum"))
    matrix = personalise(sums, heads, Options(normalisation="row_sum", form="matrix"))
    assert (auto.form, auto.relation) == ("linear", None)
    assert matrix.form == "matrix"
    assert matrix.relation is not None
    np.testing.assert_allclose(auto.heads, matrix.heads, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        Options(normalisation="power", power=1),
        Options(normalisation="softmax"),
        Options(normalisation="row_sum", max_peer_share=0.5),
        Options(normalisation="row_sum", form="matrix"),
    ],
)
def test_auto_never_takes_it_where_it_is_another_function(options: Options) -> None:
    sums, heads = _inputs(MANY, signed=False)
    assert personalise(sums, heads, options).form == "matrix"


def test_one_negative_entry_is_enough_for_the_matrix_form() -> None:
    sums, heads = _inputs(MANY, signed=False)
    sums[7, 1, 0], sums[7, 1, -1] = -1e-9, 3
    assert personalise(sums, heads, Options(normalisation="row_sum")).form == "matrix"
    with pytest.raises(ValueError, match="negative"):
        personalise(sums, heads, Options(normalisation="row_sum", form="linear"))


def test_where_the_forms_cost_the_same() -> None:
    # 2 · 640 · 650 / (640 + 650) = 644.96
    assert not linear_is_cheaper(644, 640, 650)
    assert linear_is_cheaper(645, 640, 650)


def test_linear_by_name_is_taken_for_few_sites_too() -> None:
    sums, heads = _inputs(Shape(sites=3), signed=False)
    assert personalise(sums, heads, Options(normalisation="row_sum", form="linear")).form == "linear"
    assert personalise(sums, heads, Options(normalisation="row_sum")).form == "matrix"


def test_a_site_without_records_keeps_its_head_in_both_forms() -> None:
    sums, heads = _inputs(MANY, signed=False)
    sums[11] = 0
    for options in (
        Options(normalisation="row_sum", form="linear"),
        Options(normalisation="row_sum", form="matrix"),
        Options(normalisation="softmax"),
    ):
        assert personalise(sums, heads, options).heads[11].tolist() == heads[11].tolist()


def test_the_relation_of_many_sites_never_exists_whole() -> None:
    shape = Shape(sites=RELATION_KEPT + 1, classes=2, width=2, head=3)
    sums, heads = _inputs(shape, signed=True)
    mixed = personalise(sums, heads, Options(normalisation="row_sum"))
    assert (mixed.form, mixed.relation) == ("matrix", None)
    values = representations(sums, "prior")
    block = 64 * 8 * shape.sites
    tracemalloc.start()
    blocked = mix_by_rows(values, heads, Options(normalisation="row_sum"), block_bytes=block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * block < 8 * shape.sites**2
    np.testing.assert_allclose(blocked, mixed.heads, atol=1e-12)


def test_blocks_of_columns_change_nothing() -> None:
    sums, heads = _inputs(MANY, signed=False)
    values = representations(sums, "presence")
    np.testing.assert_allclose(mix_linear(values, heads, block_bytes=1), mix_linear(values, heads), atol=1e-14)


def test_shapes_that_do_not_fit_are_refused() -> None:
    sums, heads = _inputs(MANY, signed=False)
    with pytest.raises(ValueError, match="same m"):
        personalise(sums[:3], heads, Options())
    with pytest.raises(ValueError, match="same m"):
        personalise(sums[:0], heads[:0], Options())


def test_a_site_outside_the_round_keeps_the_head_it_has() -> None:
    old = {"a": np.array([1.0]), "b": np.array([2.0]), "c": np.array([3.0])}
    new = after_round({"b": np.array([9.0]), "d": np.array([4.0])}, old)
    assert {site: head.tolist() for site, head in new.items()} == {"a": [1.0], "b": [9.0], "c": [3.0], "d": [4.0]}
    assert list(new) == ["a", "b", "c", "d"]


def test_a_late_joiner_gets_the_mean_in_an_order_of_its_own() -> None:
    generator = np.random.default_rng(1)
    heads = {f"site-{n}": generator.normal(size=4) * 10.0**n for n in range(9)}
    backwards = dict(reversed(list(heads.items())))
    found = mean_head(heads)
    assert found.tobytes() == mean_head(backwards).tobytes()
    np.testing.assert_allclose(found, np.mean(list(heads.values()), axis=0), rtol=1e-14)
    with pytest.raises(ValueError, match="no heads"):
        mean_head({})
    with pytest.raises(ValueError, match="different lengths"):
        mean_head({"a": np.zeros(2), "b": np.zeros(3)})
