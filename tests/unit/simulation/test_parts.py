"""Rows, terminal blocks and partitions side by side: nothing is ranked or paired across partitions."""

import csv
from pathlib import Path

import pytest

from secureproto.errors import Partial
from secureproto.simulation.command import Found
from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED, History
from secureproto.simulation.results import Block, Part, across, blocks, rows, summarise, write_summary
from secureproto.simulation.results.parts import NOT_COMPARED
from support.histories import drawn, history, measured, record


def run(method: str, seed: int, accuracies: dict[str, float], auc: dict[str, float | None] | None = None) -> History:
    """One scored round; as received 0.1 lower."""
    points = {
        point: {site: measured(at - less, auc=(auc or {}).get(site, 0.5)) for site, at in accuracies.items()}
        for point, less in ((RECEIVED, 0.1), (TUNED, 0.0))
    }
    trained = record(0, points, fields={"a": {"bytes_sent": 3_000_000}}, seconds=2.0)
    return history(method, seed, trained, record(1, points, seconds=0.5))


def part(name: str, *histories: History, kind: str = "digits", target: float | None = None) -> Part:
    summary = summarise(histories, target=target)
    return Part(name, f"{name}, 8 sites", f"digest of {name}", kind, summary, histories)


def iid() -> Part:
    return part("iid", *(run(m, s, {"a": at, "b": at}) for m, at in (("local", 0.5), ("ditto", 0.7)) for s in (0, 1)))


def skewed() -> Part:
    """Here the other method is best; a third stands on this partition alone."""
    methods = (("local", 0.9), ("ditto", 0.8), ("fedper", 0.99))
    return part("skewed", *(run(m, s, {"c": at}) for m, at in methods for s in (0, 1)))


def cells(block: Block) -> list[dict[str, str]]:
    return [
        dict(zip(block.columns, ((f"*{c.text}*" if c.best else c.text) for c in row), strict=True))
        for row in block.rows
    ]


def test_a_method_is_best_on_its_partition_and_never_over_them() -> None:
    found = {(one.method, one.point): one for one in across([iid(), skewed()]) if one.measure == "accuracy"}
    assert found["ditto", TUNED].best == ("iid",)
    assert found["fedper", TUNED].best == ("skewed",)
    assert found["local", TUNED].best == ()
    assert found["ditto", TUNED].mean == pytest.approx((0.7 + 0.8) / 2)
    assert found["fedper", TUNED].mean is None  # it has not run on the other
    assert found["fedper", TUNED].by_part["iid"] is None


def test_no_mean_is_taken_over_different_data() -> None:
    other = part("skewed", *skewed().histories, kind="hearts")
    assert {one.mean for one in across([iid(), other])} == {None}
    overview = blocks([iid(), other])[0]
    assert overview.columns == ("method", "point", "iid", "skewed")
    assert "data, study, rounds or ways to choose differ" in overview.notes[-1]


def test_several_partitions_are_blocks_under_their_headings() -> None:
    overview, first, _, _, _, second, *_ = blocks([iid(), skewed()])
    assert overview.notes[0] == NOT_COMPARED
    assert [row for row in cells(overview) if row["point"] == TUNED] == [
        {"method": "local", "point": TUNED, "iid": "0.500 ± 0.000", "skewed": "0.900 ± 0.000",
         "mean of 2 partitions": "0.700"},
        {"method": "ditto", "point": TUNED, "iid": "*0.700 ± 0.000*", "skewed": "0.800 ± 0.000",
         "mean of 2 partitions": "0.750"},
        {"method": "fedper", "point": TUNED, "iid": "-", "skewed": "*0.990 ± 0.000*", "mean of 2 partitions": "-"},
    ]  # fmt: skip
    assert (first.title, second.title) == ("iid, 8 sites: accuracy", "skewed, 8 sites: accuracy")
    assert [row["mean"] for row in cells(first)] == [
        "0.400 ± 0.000", "0.500 ± 0.000", "*0.600 ± 0.000*", "*0.700 ± 0.000*"
    ]  # fmt: skip


def test_one_partition_is_a_block_of_scores_a_measure_and_one_of_costs() -> None:
    undefined = {"a": 0.8, "b": None, "c": 0.9, "d": 0.85}
    sites = {"a": 0.5, "b": 0.7, "c": 0.6, "d": 0.6}
    better = {site: at + 0.1 for site, at in sites.items()}
    histories = [run("local", s, sites, undefined) for s in (0, 1, 2)]
    histories += [run("fedavg", s, {**better, "a": 0.6 + s / 100}, undefined) for s in (0, 1, 2)]
    histories.append(history("ditto", 0, failure="diverged"))
    accuracy, balanced, auc, costs = blocks([part("iid", *histories, target=0.6)])
    assert [one.title for one in (accuracy, balanced, auc, costs)] == ["accuracy", "balanced accuracy", "AUC", ""]
    tuned = [
        next(row for row in cells(block) if (row["method"], row["point"]) == ("fedavg", TUNED))
        for block in (accuracy, auc)
    ]
    assert tuned == [
        {
            "method": "fedavg",
            "point": TUNED,
            "mean": "*0.703 ± 0.003*",
            "worst": "0.610",
            "spread": "0.067",
            "vs local": "+0.102 [+0.096, +0.109]",
        },
        {
            "method": "fedavg",
            "point": TUNED,
            "mean": "*0.850 ± 0.000 (3 of 4 sites)*",
            "worst": "0.800",
            "spread": "0.041",
            "vs local": "+0.000 [+0.000, +0.000]",
        },
    ]
    assert cells(accuracy)[-1]["point"] == "no run ended"
    assert (accuracy.notes, balanced.notes) == ((), ())
    assert "over 3 seeds" in auc.notes[0]
    by_method = {row["method"]: row for row in cells(costs)}
    assert by_method["fedavg"] == {
        "method": "fedavg", "runs": "3 of 3", "rounds to 0.6": "0", "MB a site sent": "0.75", "seconds a run": "2.0"
    }  # fmt: skip
    assert by_method["local"]["rounds to 0.6"] == "not reached"
    assert by_method["ditto"]["runs"] == "0 of 1"


def test_what_sites_chose_is_counted_and_a_point_of_one_method_has_no_best() -> None:
    points = {point: {site: measured(0.7) for site in "abc"} for point in (RECEIVED, TUNED, CHOSEN)}
    fields = {site: {"chosen": name} for site, name in zip("abc", ("mixed", "own", "mixed"), strict=True)}
    ours = [history("protoaligned", seed, record(0, points, fields=fields)) for seed in (0, 1)]
    others = [run(method, seed, dict.fromkeys("abc", 0.6)) for method in ("local", "ditto") for seed in (0, 1)]
    scores, _, last, costs = blocks([part("iid", *others, *ours)])
    accuracy = {(row["method"], row["point"]): row["mean"] for row in cells(scores)}
    assert "by folds of its training records" in last.notes[1]
    assert accuracy["protoaligned", TUNED] == "*0.700 ± 0.000*"
    assert accuracy["protoaligned", CHOSEN] == "0.700 ± 0.000"
    chose = {row["method"]: row["sites chose"] for row in cells(costs)}
    assert chose == {"local": "-", "ditto": "-", "protoaligned": "mixed 4×, own 2×"}


def test_with_one_seed_the_block_says_that_there_is_no_interval() -> None:
    one = part("iid", *(run(m, 0, {"a": 0.5}) for m in ("local", "ditto")))
    scores, _, last, _ = blocks([one])
    assert "under 3 seeds, so no interval" in last.notes[0]
    assert cells(scores)[-1]["vs local"] == "+0.000"


def test_every_number_of_a_row_is_the_one_it_is_named_after() -> None:
    local = [run("local", seed, dict.fromkeys("abcd", 0.5)) for seed in (0, 1, 2)]
    other = [
        run("ditto", s, {"a": 0.6 + s / 100, "b": 0.3 - s / 100, "c": 0.55 + s / 7, "d": 0.35 + s / 7})
        for s in (0, 1, 2)
    ]
    one = part("iid", *local, *other, target=0.4)
    row = next(
        row for row in rows([one]) if (row["method"], row["point"], row["measure"]) == ("ditto", TUNED, "accuracy")
    )
    at, target = one.summary.methods[1].points[TUNED], one.summary.methods[1].target
    over = at.measures["accuracy"]
    assert (row["mean"], row["deviation"]) == (over.mean.mean, over.mean.deviation)
    assert (row["worst"], row["spread"], row["pooled"]) == (over.worst.mean, over.spread.mean, at.pooled.mean)
    gain = next(c for c in one.summary.to_reference if (c.point, c.measure) == (TUNED, "accuracy"))
    counted = ("sites_better", "sites_worse", "sites_unclear", "sites_without_interval")
    assert [row[name] for name in counted] == [1, 1, 2, 0]
    assert (gain.counts.gain, gain.counts.lose) == (2, 2)
    assert target is not None
    assert (row["rounds_to_target"], target.reached) == (target.rounds, 2)


def test_rows_are_complete_and_alike(tmp_path: Path) -> None:
    histories = drawn(methods=("local", "fedavg"), rounds=2, every=1)  # four hospitals, the last without AUC
    parts = [part("natural", *histories, history("ditto", 0, failure="diverged"), target=0.99), iid()]
    found = rows(parts)
    assert len(found) == 2 * 2 * 3 + 1 + 2 * 2 * 3  # methods, points, measures; the one that failed
    assert len({tuple(row) for row in found}) == 1
    auc = next(row for row in found if (row["method"], row["point"], row["measure"]) == ("fedavg", TUNED, "auc"))
    over = parts[0].summary.methods[1].points[TUNED].measures["auc"]
    assert (auc["mean"], auc["sites"], auc["sites_defined"]) == (over.mean.mean, 4, 3)
    gain = next(c for c in parts[0].summary.to_reference if (c.point, c.measure) == (TUNED, "auc"))
    assert (auc["difference"], auc["low"], auc["high"]) == (gain.overall.mean, gain.overall.low, gain.overall.high)
    assert auc["sites_better"] == gain.counts.better
    assert (auc["partition"], auc["reference"], auc["seeds"]) == ("natural", "local", 3)
    of_iid = [row for row in found if row["partition"] == "iid"]
    for point, measure in {(row["point"], row["measure"]) for row in of_iid}:
        column = [row for row in of_iid if (row["point"], row["measure"]) == (point, measure)]
        highest = max(row["mean"] for row in column)  # type: ignore[type-var]  # all are numbers
        assert [row["best"] for row in column] == [row["mean"] == highest for row in column]
    failed = next(row for row in found if row["method"] == "ditto")
    assert (failed["point"], failed["mean"], failed["seeds"]) == (None, None, 0)
    write_summary(tmp_path / "summary.csv", parts)
    with (tmp_path / "summary.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert list(read[0]) == list(found[0])
    assert [row["sites_defined"] for row in read] == [
        "" if row["sites_defined"] is None else str(row["sites_defined"]) for row in found
    ]


def test_what_did_not_end_is_told_in_a_line_that_ends() -> None:
    failed = [history("local", seed, failure="diverged") for seed in range(7)]
    with pytest.raises(Partial, match=r"^7 of the runs did not end: local with seed 0: diverged; .*; and 2 more$"):
        Found((part("iid", *failed),)).check()
    Found((part("iid", *failed),), asked=frozenset([("local", 9)])).check()
