"""The best of all, held against every other, and who is not ranked."""

import pytest

from secureproto.simulation.baselines.catalogue import METHODS
from secureproto.simulation.history import CHOSEN, TUNED
from secureproto.simulation.report.findings import findings
from secureproto.simulation.report.leads import leads
from secureproto.simulation.results import summarise
from secureproto.simulation.results.summarise import best_methods, unranked
from secureproto.simulation.results.summary import BOUND
from support.histories import history, record, run, scores


def test_the_best_is_held_against_every_other() -> None:
    summary = summarise([run(m, 0, {"a": at}) for m, at in (("local", 0.5), ("ditto", 0.9), ("fedavg", 0.7))])
    found = [c for c in summary.of_best if (c.point, c.measure) == (TUNED, "accuracy")]
    assert [(c.method, c.other) for c in found] == [("ditto", "local"), ("ditto", "fedavg")]
    assert [c.overall.mean for c in found] == pytest.approx([0.4, 0.2])


def test_the_best_of_those_that_choose_is_held_against_those_that_choose() -> None:
    runs = [
        history(m, 0, record(0, {TUNED: scores({"a": at}), CHOSEN: scores({"a": at + 0.1})}))
        for m, at in (("protoaligned", 0.6), ("protoaligned:alignment_weight=4", 0.7))
    ]
    summary = summarise([run("local", 0, {"a": 0.5}), *runs])
    found = [(c.method, c.other) for c in summary.of_best if (c.point, c.measure) == (CHOSEN, "accuracy")]
    assert found == [("protoaligned:alignment_weight=4", "protoaligned")]


def test_splits_drawn_anew_widen_the_lead_of_the_best_too() -> None:
    runs = [
        run(m, seed, {"a": at + seed**2 / 100}) for m, at in (("local", 0.5), ("ditto", 0.6)) for seed in range(3)
    ]
    runs[-1] = run("ditto", 2, {"a": 0.61})
    plain, wide = (
        next(c for c in summarise(runs, redrawn=ratio).of_best if c.point == TUNED).overall for ratio in (None, 0.5)
    )
    assert plain.low is not None
    assert wide.low is not None
    assert wide.low < plain.low


def test_who_lacks_a_seed_is_not_ranked_and_named() -> None:
    lucky = run("ditto", 0, {"a": 0.9})  # ahead on its one seed, which was an easy one for all
    others = [run(m, s, {"a": at + s / 4}) for m, at in (("local", 0.5), ("fedavg", 0.6)) for s in (0, 1)]
    methods = summarise([lucky, *others]).methods
    assert best_methods(methods)[TUNED, "accuracy"] == ("fedavg",)
    assert unranked(methods) == "not ranked, for others have seeds that they lack: ditto lacks 1"
    assert unranked(summarise(others).methods) is None
    apart = summarise([lucky, run("local", 1, {"a": 0.5})]).methods
    assert best_methods(apart) == {}


@pytest.mark.parametrize("label", ["pooled", "pooled:learning_rate=0.2", "first/pooled"])
def test_a_bound_is_told_and_not_ranked(label: str) -> None:
    summary = summarise([run(m, 0, {"a": at}) for m, at in (("local", 0.5), ("fedavg", 0.6), (label, 0.9))])
    assert best_methods(summary.methods)[TUNED, "accuracy"] == ("fedavg",)
    text = " ".join(findings(summary))
    assert "Highest mean accuracy as received, of 2 methods: fedavg with 0.500" in text
    assert text.count(f"{label}, where all records lie in one place, has a mean accuracy of 0.800.") == 1
    assert BOUND in METHODS


def test_a_bound_that_is_alone_is_told() -> None:
    found = findings(summarise([run("pooled", 0, {"a": 0.9})]))
    assert found == ["pooled, where all records lie in one place, has a mean accuracy of 0.800."]


def test_more_seeds_of_a_bound_put_nobody_out_of_the_ranking() -> None:
    runs = [run(m, s, {"a": at}) for m, at in (("local", 0.5), ("fedavg", 0.6)) for s in (0, 1)]
    summary = summarise([*runs, *(run("pooled", s, {"a": 0.9}) for s in range(4))])
    assert best_methods(summary.methods)[TUNED, "accuracy"] == ("fedavg",)
    assert unranked(summary.methods) is None


def test_the_highest_is_said_of_those_that_are_ranked() -> None:
    runs = [run(m, s, {"a": at}) for m, at in (("local", 0.5), ("fedavg", 0.6)) for s in (0, 1)]
    histories = [*runs, run("ditto", 0, {"a": 0.9}), run("pooled", 0, {"a": 0.9}), run("pooled", 1, {"a": 0.9})]
    summary = summarise(histories)
    assert "Highest mean accuracy as received, of 2 ranked methods: fedavg with 0.500" in " ".join(findings(summary))
    table = leads(summary, histories)[0]
    assert [row[0].text for row in table.rows] == ["local", "ditto (not ranked)", "pooled (not ranked)"]
