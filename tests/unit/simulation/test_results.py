"""Summaries of small histories worked out by hand, what is left out and said, and the files that hold it all."""

import csv
import json
from pathlib import Path
from statistics import stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secureproto.errors import Misconfigured, Unavailable
from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED, History, RoundRecord
from secureproto.simulation.results import Counts, summarise, write_csv, write_json
from secureproto.simulation.results.summary import Estimate, Summary, Target
from secureproto.simulation.statistics import MEASURES, paired
from support.histories import HOSPITALS, drawn, history, measured, record, run, scores


def of(summary: Summary, label: str, point: str = TUNED) -> Estimate:
    method = next(method for method in summary.methods if method.label == label)
    return method.points[point].measures["accuracy"].mean


def test_mean_worst_and_spread_by_hand() -> None:
    summary = summarise([run("local", 0, {"a": 0.5, "b": 0.9}), run("local", 1, {"a": 0.7, "b": 0.9})])
    (method,) = summary.methods
    over = method.points[TUNED].measures["accuracy"]
    assert over.mean.mean == pytest.approx(0.75)
    assert over.mean.deviation == pytest.approx(stdev([0.7, 0.8]))
    assert over.mean.n == 2
    assert over.worst.mean == pytest.approx(0.6)
    assert over.spread.mean == pytest.approx((0.2 + 0.1) / 2)  # half the distance of two sites, each seed
    assert method.points[RECEIVED].measures["accuracy"].mean.mean == pytest.approx(0.65)
    assert method.points[TUNED].sites["a"]["accuracy"].mean == pytest.approx(0.6)
    assert CHOSEN not in method.points


def test_one_seed_has_no_deviation() -> None:
    summary = summarise([run("local", 3, {"a": 0.5, "b": 0.9})])
    assert of(summary, "local") == Estimate(0.7, None, 1)
    assert summary.methods[0].seeds == (3,)


def test_pooled_accuracy_weighs_by_test_records() -> None:
    large = record(0, {TUNED: scores({"a": 0.5, "b": 1.0}, {"a": 30, "b": 10})})
    (method,) = summarise([history("local", 0, large)]).methods
    assert method.points[TUNED].pooled.mean == pytest.approx((15 + 10) / 40)
    assert method.points[TUNED].records == {"a": 30, "b": 10}


def test_an_undefined_auc_is_left_out_and_named() -> None:
    points = {TUNED: {"a": measured(0.5, auc=0.8), "b": measured(0.9, auc=None), "c": measured(0.9, auc=0.6)}}
    (method,) = summarise([history("local", 0, record(0, points))]).methods
    over = method.points[TUNED].measures["auc"]
    assert over.mean.mean == pytest.approx(0.7)
    assert over.worst.mean == 0.6
    assert over.undefined == ("b",)
    assert (over.defined, over.of) == (2, 3)
    assert "auc" not in method.points[TUNED].sites["b"]
    nowhere = history("local", 0, record(0, {TUNED: {"a": measured(0.5, auc=None)}}))
    assert "auc" not in summarise([nowhere]).methods[0].points[TUNED].measures


def validated(test: list[float], validation: list[float]) -> History:
    rounds = [
        record(
            number,
            {RECEIVED: {"a": measured(at)}, TUNED: {"a": measured(at)}},
            validation={TUNED: {"a": measured(guess)}},
        )
        for number, (at, guess) in enumerate(zip(test, validation, strict=True))
    ]
    return history("local", 0, *rounds)


def test_validation_picks_the_earliest_best_version_and_looks_at_no_test_record() -> None:
    one = validated([0.9, 0.5, 0.6, 0.4], [0.6, 0.8, 0.8, 0.7])
    assert of(summarise([one], rule="validation"), "local").mean == 0.5
    assert of(summarise([one]), "local").mean == 0.4
    at = summarise([one], rule="validation").methods[0].points
    assert at[TUNED].versions == {0: 1}
    assert at[RECEIVED].versions == {0: 3}  # no validation scores at that point: the last version


@settings(max_examples=25)
@given(test=st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_the_picked_version_does_not_depend_on_test_scores(test: list[float]) -> None:
    summary = summarise([validated(test, [0.6, 0.7, 0.8, 0.75])], rule="validation")
    assert summary.methods[0].points[TUNED].versions == {0: 2}


def test_validation_needs_validation_records() -> None:
    with pytest.raises(Misconfigured, match="no site has validation records") as refused:
        summarise([run("local", 0, {"a": 0.5})], rule="validation")
    assert "share" in refused.value.hint
    with pytest.raises(Misconfigured, match="'best' is not a rule"):
        summarise([run("local", 0, {"a": 0.5})], rule="best")  # type: ignore[arg-type]


def test_the_last_version_is_the_last_that_was_scored() -> None:
    one = history("local", 0, record(0, {TUNED: scores({"a": 0.5})}), record(1, {}, fields={"a": {"steps": 3}}))
    assert summarise([one]).methods[0].points[TUNED].versions == {0: 0}


def test_a_run_that_failed_counts_in_no_mean_and_is_listed() -> None:
    gone = run("fedavg", 1, {"a": 0.1}, {"a": 0.1}, failure="training diverged: cross entropy is not finite")
    summary = summarise([run("fedavg", 0, {"a": 0.8}), gone, history("ditto", 0, failure="diverged at once")])
    assert of(summary, "fedavg") == Estimate(0.8, None, 1)
    first, second = summary.failures
    assert (first.method, first.seed, first.last_round) == ("fedavg", 1, 1)
    assert "cross entropy" in first.reason
    assert (second.method, second.last_round) == ("ditto", None)
    assert summary.methods[1].seeds == ()
    assert summary.methods[1].points == {}


def test_an_interrupted_run_is_a_failure_with_a_reason() -> None:
    gone = run("fedavg", 1, {"a": 0.1}).model_copy(update={"complete": False})
    (failure,) = summarise([gone]).failures
    assert "interrupted" in failure.reason


def test_two_runs_of_one_seed_are_refused() -> None:
    with pytest.raises(ValueError, match="one seed"):
        summarise([run("local", 0, {"a": 0.5})] * 2)


def test_rounds_to_the_target() -> None:
    def curve(seed: int, *means: float, failure: str | None = None) -> History:
        return run("fedavg", seed, *({"a": mean + 0.1} for mean in means), failure=failure)  # received: the means

    three = [curve(0, 0.5, 0.7, 0.8), curve(1, 0.5, 0.6, 0.6), curve(2, 0.7, 0.2, 0.2)]
    assert summarise(three, target=0.7).methods[0].target == Target(1.0, 2, 3)
    assert summarise(three[:2], target=0.7).methods[0].target == Target(None, 1, 2)
    gone = curve(2, 0.5, failure="diverged")
    assert summarise([three[0], three[1], gone], target=0.7).methods[0].target == Target(None, 1, 3)
    assert summarise(three).methods[0].target is None


def test_a_version_that_only_some_sites_were_scored_on_is_neither_reported_nor_a_target_reached() -> None:
    """Rounds that take a share of the sites: the easy ones of a round must not stand for all."""
    easy, all_of_them = {"a": 0.99}, {"a": 0.6, "b": 0.4}
    rounds = [
        record(number, {point: scores(at) for point in (RECEIVED, TUNED)})
        for number, at in enumerate((easy, {"b": 0.95}, all_of_them))
    ]
    summary = summarise([history("fedavg", 0, *rounds)], target=0.9)
    assert summary.methods[0].points[TUNED].versions == {0: 2}
    assert summary.methods[0].target == Target(None, 0, 1)


def test_bytes_and_seconds() -> None:
    rounds = [
        record(number, {}, fields={"a": {"bytes_sent": 100}, "b": {"bytes_sent": 300}}, seconds=1.5)
        for number in range(2)
    ]
    scored = record(2, {TUNED: scores({"a": 0.5, "b": 0.5})}, seconds=0.5)
    (method,) = summarise([history("fedavg", 0, *rounds, scored)]).methods
    assert method.bytes_sent == Estimate(400.0, None, 1)
    assert method.seconds == Estimate(3.0, None, 1)


def test_choices_are_counted_over_sites_and_seeds() -> None:
    def chosen(seed: int, *names: str) -> History:
        fields: dict[str, dict[str, object]] = {
            site: {"chosen": name} for site, name in zip("ab", names, strict=True)
        }
        return history("ditto", seed, record(0, {CHOSEN: scores({"a": 0.5, "b": 0.7})}, fields=fields))

    (method,) = summarise([chosen(0, "own", "shared"), chosen(1, "own", "own")]).methods
    assert method.choices == {"own": 3, "shared": 1}


def test_comparisons_take_matching_seeds_and_sites() -> None:
    summary = summarise(
        [
            run("local", 0, {"a": 0.5, "b": 0.6}),
            run("local", 1, {"a": 0.6, "b": 0.6}),
            run("fedavg", 1, {"a": 0.7, "b": 0.6}),
            run("fedavg", 0, {"a": 0.8, "b": 0.5, "c": 1.0}),
            run("fedavg", 2, {"a": 0.7, "b": 0.7}),
            run("local", 2, {"a": 0.6, "b": 0.6}),
            run("fedavg", 3, {"a": 0.0, "b": 0.0}),
        ]
    )
    found = next(c for c in summary.to_reference if (c.point, c.measure) == (TUNED, "accuracy"))
    assert (found.method, found.other, found.seeds) == ("fedavg", "local", (0, 1, 2))
    by_hand = paired([(0.3 - 0.1) / 2, 0.1 / 2, (0.1 + 0.1) / 2])
    assert [found.overall.mean, found.overall.low] == pytest.approx([by_hand.mean, by_hand.low])
    assert found.sites["a"].mean == pytest.approx((0.3 + 0.1 + 0.1) / 3)
    assert set(found.sites) == {"a", "b"}
    assert found.undefined == ("c",)
    assert found.counts == Counts(gain=1, lose=0, better=0, worse=0, unclear=2, no_interval=0)


def test_sites_are_counted_by_what_their_interval_allows() -> None:
    local = {"up": 0.5, "down": 0.5, "open": 0.5, "same": 0.5, "tied": 0.5}
    changes = [
        {"up": 0.7, "down": 0.3, "open": 0.9, "tied": 0.7},
        {"up": 0.71, "down": 0.31, "open": 0.4, "tied": 0.7},
        {"up": 0.7, "down": 0.3, "open": 0.6, "tied": 0.7},
    ]
    runs = [run("local", seed, local) for seed in (0, 1, 2)]
    runs += [run("fedavg", seed, {**local, **change}) for seed, change in enumerate(changes)]

    def counts(histories: list[History]) -> Counts:
        return next(c.counts for c in summarise(histories).to_reference if c.point == TUNED)

    # five records that agree in three runs are no interval
    assert counts(runs) == Counts(gain=3, lose=1, better=1, worse=1, unclear=2, no_interval=1)
    for few in ([runs[0], runs[3]], [*runs[:2], *runs[3:5]]):
        assert counts(few) == Counts(gain=3, lose=1, better=0, worse=0, unclear=0, no_interval=5)


def test_redrawn_splits_widen_the_comparisons() -> None:
    runs = [run(method, seed, {"a": 0.5}) for method in ("local", "fedavg") for seed in range(3)]
    runs[-1] = run("fedavg", 2, {"a": 0.52})
    plain, wide = (summarise(runs, redrawn=ratio).to_reference[0].overall for ratio in (None, 0.5))
    assert plain.high is not None
    assert wide.high is not None
    assert wide.high - wide.mean == pytest.approx((plain.high - plain.mean) * ((1 / 3 + 0.5) / (1 / 3)) ** 0.5)


def test_one_seed_is_compared_without_an_interval() -> None:
    found = summarise([run("local", 0, {"a": 0.5}), run("fedavg", 0, {"a": 0.6})]).to_reference
    assert {(c.overall.low, c.overall.high) for c in found} == {(None, None)}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("local:local_epochs=5", "local:local_epochs=5"),
        ("local", "local:local_epochs=5"),
        ("fedper", None),
        (None, None),
    ],
)
def test_the_reference_is_a_label_or_a_name(wanted: str | None, found: str | None) -> None:
    runs = [run("fedavg", 0, {"a": 0.6}), run("local:local_epochs=5", 0, {"a": 0.5})]
    summary = summarise(runs, reference=wanted)
    assert summary.reference == found
    assert bool(summary.to_reference) is (found is not None)


def test_of_splits_of_several_sizes_the_largest_is_told() -> None:
    runs = [history("local", seed, record(0, {TUNED: scores({"a": 0.5}, {"a": n})})) for seed, n in ((0, 9), (1, 7))]
    assert summarise(runs).methods[0].points[TUNED].records == {"a": 9}


def test_a_part_of_the_sites_reaches_no_target() -> None:
    """Where a round takes a share of the sites: a run that did not end was never scored on all of them."""
    part = [record(0, {RECEIVED: scores({"a": 0.99})}), record(1, {RECEIVED: scores({"b": 0.95})})]
    last = record(2, {RECEIVED: scores({"a": 0.8, "b": 0.9})})
    runs = [history("fedavg", 0, *part, failure="diverged"), history("fedavg", 1, *part, last)]
    assert summarise(runs, target=0.9).methods[0].target == Target(None, 0, 2)
    assert summarise(runs, target=0.8).methods[0].target == Target(None, 1, 2)


def test_a_site_without_a_score_in_one_seed_is_missing() -> None:
    def auc(seed: int, at: float | None) -> History:
        return history("local", seed, record(0, {TUNED: {"a": measured(0.5, auc=at), "b": measured(0.5, auc=0.7)}}))

    (method,) = summarise([auc(0, 0.6), auc(1, None)]).methods
    over = method.points[TUNED].measures["auc"]
    assert (over.undefined, over.defined, over.of) == (("a",), 1, 2)
    assert over.mean.mean == pytest.approx(0.7)  # of b alone, in both seeds: what the label says


def test_a_measure_that_no_site_has_in_every_seed_has_no_mean_and_no_difference() -> None:
    def auc(method: str, seed: int) -> History:
        at = {"a": None if seed else 0.6, "b": 0.7 if seed else None}
        return history(method, seed, record(0, {TUNED: {site: measured(0.5, auc=each) for site, each in at.items()}}))

    summary = summarise([auc(method, seed) for method in ("local", "fedavg") for seed in (0, 1)])
    assert all("auc" not in method.points[TUNED].measures for method in summary.methods)
    assert all("auc" in method.points[TUNED].sites["a"] for method in summary.methods)
    assert {one.measure for one in summary.to_reference} == {"accuracy", "balanced_accuracy"}


def test_the_difference_of_means_is_over_sites_that_have_the_measure_in_every_seed() -> None:
    def auc(method: str, seed: int, a: float, b: float | None) -> History:
        return history(method, seed, record(0, {TUNED: {"a": measured(0.5, auc=a), "b": measured(0.5, auc=b)}}))

    runs = [auc("local", 0, 0.5, None), auc("local", 1, 0.5, 0.5)]
    runs += [auc("fedavg", 0, 0.6, None), auc("fedavg", 1, 0.6, 1.0)]
    (found,) = (one for one in summarise(runs).to_reference if one.measure == "auc")
    assert found.overall.mean == pytest.approx(0.1)
    assert found.sites["b"].mean == pytest.approx(0.5)


def test_a_chosen_model_is_held_against_the_tuned_one_of_a_method_without_choice() -> None:
    both = history("ditto", 0, record(0, {TUNED: scores({"a": 0.6}), CHOSEN: scores({"a": 0.8})}))
    summary = summarise([run("local", 0, {"a": 0.5}), both])
    found = next(c for c in summary.to_reference if (c.point, c.measure) == (CHOSEN, "accuracy"))
    assert found.overall.mean == pytest.approx(0.3)


@settings(max_examples=20, deadline=None)
@given(seeds=st.permutations([0, 1, 2]), sites=st.permutations(HOSPITALS))
def test_the_order_of_runs_and_sites_changes_nothing(seeds: list[int], sites: list[str]) -> None:
    made = drawn(methods=("local", "fedavg"), rounds=2, every=1)
    mixed = [
        item.model_copy(
            update={
                "rounds": tuple(
                    at.model_copy(update={"sites": {site: at.sites[site] for site in sites}})
                    for at in reversed(item.rounds)
                )
            }
        )
        for seed in seeds
        for item in made
        if item.seed == seed
    ]
    assert summarise(mixed) == summarise(sorted(made, key=lambda item: seeds.index(item.seed)))
    assert {m.label: m for m in summarise(mixed).methods} == {m.label: m for m in summarise(made).methods}


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_score_and_training_is_in_the_files(tmp_path: Path) -> None:
    made = drawn(methods=("local", "fedprox:mu=0.01,5"), seeds=(0, 1), rounds=2, every=1)
    write_csv(tmp_path / "results.csv", iter(made))
    found = read(tmp_path / "results.csv")
    assert list(found[0]) == ["method", "seed", "round", "site", "point", "part", *MEASURES, "n", "chose"]
    assert len(found) == 2 * 2 * 3 * 4 * 2 * 2  # methods, seeds, rounds, sites, points, parts
    at = next(row for row in found if (row["method"], row["seed"], row["round"]) == ("fedprox:mu=0.01,5", "1", "2"))
    exact = made[3].rounds[2].sites[at["site"]].points[at["point"]][at["part"]]
    assert float(at["accuracy"]) == exact.accuracy
    assert {row["auc"] for row in found if row["site"] == "switzerland"} == {""}
    trained = read(tmp_path / "rounds.csv")
    assert len(trained) == 2 * 2 * 3 * 4
    assert list(trained[0])[-2:] == ["bytes_sent", "seconds"]
    for name in ("cross_entropy", "embedding_norm", "bytes_sent", "seconds"):
        assert float(trained[-1][name]) == getattr(made[3].rounds[2].sites["switzerland"], name)
    assert {row["alignment"] for row in trained} == {""}  # neither method has that term
    assert {path.name for path in tmp_path.iterdir()} == {"results.csv", "rounds.csv"}


def test_what_each_site_chose_is_in_the_file(tmp_path: Path) -> None:
    (ours,) = drawn(methods=("protoaligned",), seeds=(0,), rounds=2, every=1)
    write_csv(tmp_path / "results.csv", [ours])
    chose = {row["site"]: row["chose"] for row in read(tmp_path / "results.csv") if row["point"] == CHOSEN}
    assert chose == {site: at.chosen for site, at in ours.rounds[-1].sites.items()}
    assert all(chose.values())
    assert {row["chose"] for row in read(tmp_path / "results.csv") if row["point"] != CHOSEN} == {""}


def test_the_target_of_fine_tuned_fedavg_is_one_after_local_training() -> None:
    one = history("fedavg-ft", 0, *(record(n, {TUNED: scores({"a": at})}) for n, at in enumerate((0.4, 0.6, 0.7))))
    found = summarise([one], target=0.6).methods[0].target
    assert found is not None
    assert (found.rounds, found.reached) == (1.0, 1)


def test_the_summary_as_json_is_stable_and_complete(tmp_path: Path) -> None:
    made = drawn(methods=("local", "protoaligned"), rounds=5, failing={"local": 2})
    for name in ("a.json", "b.json"):
        write_json(tmp_path / name, summarise(made, target=0.7), {"study": "heart"})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert list(found) == sorted(found)
    assert found["study"] == "heart"
    assert found["failures"][0]["method"] == "local"
    mean = found["methods"][1]["points"][TUNED]["measures"]["accuracy"]["mean"]
    assert mean["mean"] == of(summarise(made), "protoaligned").mean


def test_a_file_is_replaced_as_a_whole_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("old")

    def breaks() -> list[History]:
        raise KeyError("a history that cannot be read")

    with pytest.raises(KeyError):
        write_csv(path, (item for made in [breaks] for item in made()))
    assert path.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["results.csv"]
    with pytest.raises(Unavailable, match="cannot write"):
        write_csv(tmp_path / "none" / "results.csv", [])


def test_a_version_is_not_chosen_by_validation_among_versions_of_other_sites() -> None:
    def at(number: int, *sites: str) -> RoundRecord:
        points = {RECEIVED: scores(dict.fromkeys(sites, 0.5))}
        return record(number, points, validation=points)

    with pytest.raises(Misconfigured, match="rounds take a share of the sites"):
        summarise([history("fedavg", 0, at(0, "a"), at(1, "b"), at(2, "a", "b"))], rule="validation")
