"""The picture and the table of a partition."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from secureproto.simulation.partition.division import Options, Partition
from secureproto.simulation.partition.picture import draw
from secureproto.simulation.partition.table import table
from secureproto.simulation.population import Rows, SiteRows
from secureproto.simulation.shift import Shift
from support.partitions import divided, names, own_counts, pool_of


def texts(svg: str) -> list[str]:
    tree = ElementTree.fromstring(svg)  # noqa: S314 - we drew it
    return ["".join(node.itertext()) for node in tree.iter() if node.tag.endswith("}text")]


def test_sites_classes_and_counts_stand_in_the_picture() -> None:
    pool = pool_of([100, 80, 60])
    partition = divided(pool, "dirichlet:0.5", sites=4, split="stratified")
    found = texts(draw(partition, pool.records.y, names(3)))
    assert {"site-000", "site-003", "kind 0", "kind 2", "training", "test"} <= set(found)
    assert "dirichlet:0.5, 4 sites, seed 0" in found
    counts = own_counts(partition, pool, 3)
    assert {str(n) for n in counts[counts > 0]} <= set(found)


def test_equal_partitions_give_equal_bytes_and_no_date() -> None:
    pool = pool_of([100, 80])
    pictures = {draw(divided(pool, "iid", sites=4, split="stratified"), pool.records.y, names(2)) for _ in range(2)}
    assert len(pictures) == 1
    assert not re.search(r"<dc:date>|<script|20\d\d-\d\d-\d\d", pictures.pop())


@pytest.mark.parametrize(("sites", "classes"), [(1, 2), (200, 10), (200, 100)])
def test_few_and_many_sites_are_drawn_to_a_size_that_reads(sites: int, classes: int) -> None:
    pool = pool_of([400] * classes)
    svg = draw(divided(pool, "iid", sites=sites, split="stratified"), pool.records.y, names(classes))
    width, height = (float(size) for size in re.findall(r'(?:width|height)="([\d.]+)pt"', svg)[:2])
    assert width <= 72 * 19
    assert height <= 72 * 15
    assert len(svg) < 400_000
    labels = [text for text in texts(svg) if text.startswith("site-")]
    assert labels[0] == "site-000"
    assert len(labels) <= 110


def test_names_are_shown_as_they_are_and_not_read_as_formulas() -> None:
    pool = pool_of([20, 20])
    partition = divided(pool, "iid", sites=2, split="stratified")
    found = texts(draw(partition, pool.records.y, [r"$\frac{$", "<b>&amp; a very long name of a class"]))
    assert r"$\frac{$" in found
    assert "<b>&amp; a very l…" in found


def test_any_letters_can_be_drawn() -> None:
    pool = pool_of([20, 20])
    partition = divided(pool, "iid", sites=2, split="stratified")
    assert {"猫", "a�b"} <= set(texts(draw(partition, pool.records.y, ["猫", "a\x00b"])))


def test_shared_tests_are_told() -> None:
    pool = pool_of([600] * 3, [10] * 3)
    svg = draw(divided(pool, "fedpac:50:1", sites=4, per_site=50), pool.records.y, names(3))
    assert "test parts share records" in svg


def rows(*numbers: int) -> Rows:
    return np.array(numbers, dtype=np.int64)


def test_the_table_by_hand() -> None:
    labels = np.array([0, 0, 1, 2, 2, 1, 1])
    sites = {
        "north": SiteRows(rows(0, 1, 2), rows(6)),
        "south": SiteRows(rows(3, 4), rows(6), rows(5), Shift(1.25, -0.1, 3)),
    }
    partition = Partition("x", Options(), "d", sites)
    assert table(partition, labels, ["a", "b", "c"]) == [
        {
            "site": "north",
            "train": 3,
            "validation": 0,
            "test": 1,
            "classes": 2,
            "largest": "a (67%)",
            "shift": "none",
        },
        {
            "site": "south",
            "train": 2,
            "validation": 1,
            "test": 1,
            "classes": 2,
            "largest": "c (67%)",
            "shift": "×1.25 -0.10, turned 270°",
        },
    ]
    assert partition.tests_overlap


def test_a_table_without_shifts_has_no_column_for_them() -> None:
    pool = pool_of([20, 20])
    found = table(divided(pool, "iid", sites=2, split="stratified"), pool.records.y, names(2))
    assert list(found[0]) == ["site", "train", "validation", "test", "classes", "largest"]
