"""Means of scores that are equal are equal, whatever the order of their sums makes of them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.simulation.history import RECEIVED, TUNED, History
from secureproto.simulation.report.findings import findings
from secureproto.simulation.results import Part, summarise
from secureproto.simulation.results.rows import rows
from secureproto.simulation.results.summarise import best_methods
from secureproto.simulation.results.terminal import blocks
from secureproto.simulation.statistics import paired
from support.histories import history, record, run, scores


@given(st.lists(st.sampled_from([5.5e-17, -5.5e-17, 0.0, 1e-16]), min_size=3, max_size=9))
def test_a_difference_of_nothing_is_none(differences: Sequence[float]) -> None:
    found = paired(differences)
    assert (found.mean, found.low, found.high, found.sign) == (0.0, 0.0, 0.0, 0)


def tied(seeds: int) -> list[History]:
    """Over two sites both have a mean of 0.65; as floats one is a little less."""
    both = (("local", {"a": 0.7, "b": 0.6}), ("fedavg", {"a": 0.8, "b": 0.5}))
    return [run(method, seed, at) for method, at in both for seed in range(seeds)]


def test_equal_methods_are_not_told_to_differ_and_all_of_them_are_marked() -> None:
    summary = summarise(tied(4))
    (found,) = (c for c in summary.to_reference if (c.point, c.measure) == (TUNED, "accuracy"))
    assert (found.overall.mean, found.overall.sign) == (0.0, 0)
    assert best_methods(summary.methods)[TUNED, "accuracy"] == ("local", "fedavg")
    told = " ".join(findings(summary))
    assert "does not hold zero" not in told
    assert "of 2 methods: local and fedavg alike with 0.650." in told
    part = Part("iid", "iid", "digest", "kind", summary, tuple(tied(4)))
    marked = [row for row in blocks([part])[0].rows if row[1].text == TUNED]
    assert [(row[0].text, row[2].best) for row in marked] == [("local", True), ("fedavg", True)]
    told_by_row = [row["best"] for row in rows([part]) if (row["point"], row["measure"]) == (TUNED, "accuracy")]
    assert told_by_row == [True, True]


@pytest.mark.parametrize("at", [{"a": 0.7, "b": 0.6}, {"a": 0.8, "b": 0.5}])
def test_a_target_that_is_met_exactly_is_met(at: dict[str, float]) -> None:
    points = {RECEIVED: scores(at), TUNED: scores(at)}
    (method,) = summarise([history("fedavg", 0, record(0, points))], target=0.65).methods
    assert method.target is not None
    assert method.target.reached == 1


def test_of_versions_that_validate_alike_the_earliest_is_reported() -> None:
    validation = ({"a": 0.7, "b": 0.6}, {"a": 0.8, "b": 0.5})
    rounds = [
        record(number, {TUNED: scores({"a": 0.5, "b": 0.5})}, validation={TUNED: scores(at)})
        for number, at in enumerate(sorted(validation, key=lambda at: sum(at.values()) / 2))
    ]
    (method,) = summarise([history("fedavg", 0, *rounds)], rule="validation").methods
    assert method.points[TUNED].versions == {0: 0}
