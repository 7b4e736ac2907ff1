"""Who holds a class, and which classes never get a global prototype."""

from collections.abc import Sequence

import numpy as np

from secureproto.simulation.holders import holders, never_shared, one_class_tested
from secureproto.simulation.partition.division import Divisions, Options, Partition
from secureproto.simulation.population import SiteRows
from support.learning import tabular_study

Y = np.array([0, 0, 1, 1, 2, 2])
STUDY = tabular_study()  # three classes; min_holders is 2


def divisions(*draws: Sequence[Sequence[int]]) -> Divisions:
    """Of each draw the training rows of its sites; every row is tested on at every site."""
    every = np.arange(len(Y))
    made = [{f"site-{number}": SiteRows(np.array(own), every) for number, own in enumerate(draw)} for draw in draws]
    return Divisions(tuple(Partition("iid", Options(), "", sites) for sites in made), repeated=len(made) > 1)


def told(labels: Sequence[str], *draws: Sequence[Sequence[int]]) -> list[str]:
    return never_shared(labels, STUDY, divisions(*draws), Y)


def test_a_holder_trains_on_the_class_and_is_one_whatever_it_has() -> None:
    sites = divisions([[0, 1, 2], [0, 4]]).partitions[0].sites.values()
    assert holders(sites, Y, 3).tolist() == [2, 1, 1]


def test_classes_that_too_few_hold_are_named_with_their_holders() -> None:
    (line,) = told(["local", "protoaligned"], [[0, 2], [1, 3], [2]])
    assert line.startswith("prototypes.min_holders is 2: no global prototype of class 2 (0); in brackets the sites ")


def test_where_it_is_every_class_the_alignment_term_is_said_to_do_nothing() -> None:
    (line,) = told(["protoaligned"], [[0], [2], [4]])
    assert line.endswith("(class 0 (1), class 1 (1), class 2 (1)): the alignment term does nothing")


def test_nothing_is_told_where_every_class_has_holders_or_nobody_needs_them() -> None:
    assert told(["protoaligned"], [[0, 2, 4], [1, 3, 5]]) == []
    assert told(["local", "fedproto", "fedavg"], [[0], [2], [4]]) == []


def test_each_number_of_holders_that_a_method_asks_for_is_told_once() -> None:
    labels = ["protoaligned", "protoaligned:alignment_weight=0.1", "protoaligned:min_holders=1"]
    assert [line.partition(":")[0] for line in told(labels, [[0, 2], [1, 3]])] == [
        "prototypes.min_holders is 1",
        "prototypes.min_holders is 2",
    ]


def test_each_draw_is_looked_at() -> None:
    good, bad = [[0, 2, 4], [1, 3, 5]], [[0, 2], [1, 3, 5]]
    assert len(told(["protoaligned"], good, bad, bad)) == 1


def test_test_records_of_one_class_are_told_once() -> None:
    def drawn(*tests: Sequence[int]) -> Divisions:
        own = np.arange(2)
        made = [{f"site-{number}": SiteRows(own, np.array(test)) for number, test in enumerate(tests)}] * 2
        return Divisions(tuple(Partition("iid", Options(), "", sites) for sites in made), repeated=True)

    (line,) = one_class_tested(STUDY.classes, drawn([2], [3]), Y)
    assert line.startswith("all test records are of class class 1: ")
    assert one_class_tested(STUDY.classes, drawn([2], [4]), Y) == []
