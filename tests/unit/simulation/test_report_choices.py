"""What sites use that choose: named at the head, told apart from what is ranked, counted site by site, explained."""

from collections.abc import Mapping, Sequence

import pytest

from secureproto.learning.choice import KINDS
from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED, History, Measured
from secureproto.simulation.report import render
from secureproto.simulation.report.findings import findings
from secureproto.simulation.report.leads import leads
from secureproto.simulation.report.site_tables import CANDIDATES, by_site, choices
from secureproto.simulation.report.tables import further
from secureproto.simulation.results import summarise
from support.histories import drawn, history, measured, record
from support.pages import report, whole

Scores = Mapping[str, tuple[float, float, float | None]]  # by method: received, tuned, chosen

SCORES: Scores = {"local": (0.50, 0.60, None), "fedavg": (0.75, 0.70, None), "protoaligned": (0.65, 0.80, 0.90)}


def runs(scores: Scores, seeds: int = 3) -> list[History]:
    """Runs of two sites of equal scores; with each seed they are one point higher."""
    return [
        history(method, seed, record(0, _points(at, seed / 100), fields={s: {"chosen": "own"} for s in "ab"}))
        for method, at in scores.items()
        for seed in range(seeds)
    ]


def _points(at: Sequence[float | None], more: float) -> dict[str, dict[str, Measured]]:
    scored = zip((RECEIVED, TUNED, CHOSEN), at, strict=True)
    return {point: {s: measured(value + more) for s in "ab"} for point, value in scored if value is not None}


def test_the_head_names_the_highest_at_each_point_and_ranks_nothing_as_chosen() -> None:
    received, tuned, chosen, *_ = findings(summarise(runs(SCORES)))
    assert received.startswith(
        "Highest mean accuracy as received, of 3 methods: fedavg with 0.760 (worst site 0.760)."
    )
    assert "Against local that is +0.250" in received
    assert tuned.startswith("Highest mean accuracy after local training, of 3 methods: protoaligned with 0.810 (")
    assert chosen.startswith(
        "Mean accuracy as chosen, where each site picks what it uses by its own training records: "
    )
    assert "protoaligned with 0.910 (worst site 0.910; after local training 0.810)." in chosen
    assert "Against local after local training that is +0.300" in chosen
    assert chosen.endswith("The sites of other methods choose nothing, so this is no rank among them.")


def test_of_several_methods_whose_sites_choose_the_head_names_each() -> None:
    scores: Scores = {**SCORES, "protoaligned:power=2": (0.65, 0.80, 0.93)}
    chosen = findings(summarise(runs(scores)))[2]
    assert chosen.startswith(
        "Highest mean accuracy as chosen, of 2 methods whose sites choose: protoaligned:power=2 with"
    )
    assert "Also as chosen: protoaligned with 0.910 (worst site 0.910; after local training 0.810)." in chosen
    alone = findings(summarise(runs({key: scores[key] for key in scores if key.startswith("protoaligned")})))
    assert "no rank" not in " ".join(alone)


def test_the_head_of_one_method_is_its_scores() -> None:
    told = findings(summarise(runs({"fedavg": SCORES["fedavg"]})))
    assert told == [
        "Mean accuracy as received: fedavg with 0.760 (worst site 0.760).",
        "Mean accuracy after local training: fedavg with 0.710 (worst site 0.710).",
    ]


def test_what_sites_use_is_held_against_the_others_and_itself() -> None:
    histories = runs(SCORES)
    *_, table = leads(summarise(histories), histories)
    assert table.caption.startswith("protoaligned, as chosen by its sites, against itself")
    assert [(row[0].text, row[1].text) for row in table.rows] == [
        ("itself, after local training", "+0.100"),
        ("local, after local training", "+0.300"),
        ("fedavg, after local training", "+0.200"),
    ]
    several = runs({**SCORES, "protoaligned:power=2": (0.65, 0.80, 0.85)})
    *_, table = leads(summarise(several), several)
    assert ("protoaligned:power=2, as chosen", "+0.050") in {(row[0].text, row[1].text) for row in table.rows}
    without = runs({key: SCORES[key] for key in ("local", "fedavg")})
    assert len(leads(summarise(without), without)) == 2  # as received, after local training


def test_every_site_s_choices_are_counted_over_the_seeds_that_ended() -> None:
    def run(seed: int, first: str, second: str, failure: str | None = None) -> History:
        chose = {"a": {"chosen": first}, "b": {"chosen": second}}
        before = record(0, {}, fields={"a": {"chosen": "local"}, "b": {}})
        return history("protoaligned", seed, before, record(1, {}, fields=chose), failure=failure)

    histories = [run(0, "mixed", "own"), run(1, "mixed", "longer"), run(2, "local", "local", "diverged")]
    (table,) = choices(summarise(histories), [*histories, *drawn(("a", "b"), ("local",), (0,), rounds=1)])
    assert table.caption == "protoaligned: how often a site chose what, over 2 seeds"
    assert table.columns == ("site", "mixed", "midway", "longer", "local", "blend", "own")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["a", "2", "0", "0", "0", "0", "0"],
        ["b", "0", "0", "1", "0", "0", "1"],
        ["all 2 sites", "2", "0", "1", "0", "0", "1"],
    ]


def test_a_choice_without_a_place_gets_one_and_of_very_many_sites_all_are_counted_together() -> None:
    (table,) = choices(summarise(found := [_one("c")]), found)
    assert table.columns[-1] == "newest"
    assert [row[0].text for row in table.rows] == ["c"]
    (table,) = choices(summarise(found := [_one(*(f"s{i}" for i in range(201)))]), found)
    assert [[cell.text for cell in row] for row in table.rows] == [["all 201 sites", *"000000", "201"]]


def _one(*sites: str) -> History:
    return history("protoaligned", 0, record(0, {}, fields={site: {"chosen": "newest"} for site in sites}))


def test_the_words_tell_by_which_records_sites_choose_and_what() -> None:
    glossary = " ".join(whole()[whole().index('<section id="glossary"') :].split())
    assert "folds of its own training records" in glossary
    assert "own validation records" not in glossary
    assert CANDIDATES == KINDS
    assert all(f"{kind}: " in glossary for kind in KINDS)
    assert all(f"{kind} " in whole()[whole().index('<section id="choices"') :] for kind in KINDS)


@pytest.mark.parametrize("measure", ["accuracy", "balanced_accuracy", "auc"])
def test_a_site_s_row_has_the_scores_of_what_it_uses(measure: str) -> None:
    histories = drawn(methods=("local", "protoaligned"), rounds=1, every=1)
    summary = summarise(histories)
    table = by_site(summary, measure)  # type: ignore[arg-type]
    assert table is not None
    assert table.columns == ("site", "test records", "local", "protoaligned", "protoaligned, as chosen")
    at = summary.methods[1].points[CHOSEN].sites["cleveland"]
    assert table.rows[0][-1].text == f"{at[measure].mean:.3f}"  # type: ignore[index]
    assert (table.rows[-1][-1].text == "–") is (measure == "auc")


def test_a_target_that_few_runs_reached_is_told_as_that() -> None:
    scores = ((0.9, 0.2), (0.2, 0.2), (0.9, 0.9))
    histories = [
        history(f"fedprox:mu={i}", seed, record(0, {RECEIVED: {"a": measured(at)}}))
        for i, both in enumerate(scores)
        for seed, at in enumerate(both)
    ]
    table = further(summarise(histories, target=0.8))
    place = table.columns.index("rounds to accuracy 0.8")
    assert [(row[place].text, row[place].small) for row in table.rows] == [
        ("not reached", "(1 of 2 runs did)"),
        ("not reached", ""),
        ("0", ""),
    ]
    page = render(report(histories, target=0.8))
    assert "not reached<small>(1 of 2 runs did)</small>" in page
    assert "Not reached: half of the runs or more" in page  # among the words
