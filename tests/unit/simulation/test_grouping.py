"""Experiments by partition: what is together, what it is called, and which method a reference means."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from secureproto.errors import Misconfigured
from secureproto.simulation.definition import Definition
from secureproto.simulation.experiment import Experiment
from secureproto.simulation.grouping import Group, grouped
from secureproto.simulation.history import History
from support.histories import history

OPTIONS = {"sites": 3, "per_site": None, "split": "stratified", "test_share": "0.3", "validation_share": "0.0"}


@dataclass(frozen=True)
class Standing:
    """What `grouped` reads of an experiment."""

    directory: Path
    definition: Definition
    labels: tuple[str, ...]

    def histories(self) -> list[History]:
        return [history(label, seed) for label in self.labels for seed in (0, 1)]


class Interrupted(Standing):
    """Without an end of its first run."""

    def histories(self) -> list[History]:
        return [history("local", 0, failure="diverged"), history("local", 1)]


def standing(directory: Path, *labels: str, scheme: str = "iid", digest: str = "a", **more: object) -> Experiment:
    directory.mkdir()
    content = {
        "scheme": scheme, "repeated": False,
        "options": {**OPTIONS, **cast(dict[str, object], more.get("options", {}))},
        "partitions": [{"seed": 4, "sites": {"x": {}, "y": {}, "z": {}}}],
    }  # fmt: skip
    (directory / "partition.json").write_text(json.dumps(content))
    definition = Definition(
        study="digits", study_digest=str(more.get("study_digest", "s")),
        data=cast(tuple[str, ...], more.get("data", ("digits",))),
        pool_digest=str(more.get("pool", "p")), partition=scheme, partition_digest=digest * 64, split="stratified",
        rounds=cast(int, more.get("rounds", 3)), evaluate_every=cast(int, more.get("evaluate_every", 1)),
        choice=str(more.get("choice", "of 6")),
    )  # fmt: skip
    return cast(Experiment, Standing(directory, definition, labels))


def methods(group: Group) -> list[str]:
    return list(dict.fromkeys(one.method for one in group.histories))


def test_experiments_that_are_alike_are_one_and_a_run_of_both_is_one(tmp_path: Path) -> None:
    (group,) = grouped([standing(tmp_path / "a", "local", "ditto"), standing(tmp_path / "b", "ditto", "fedavg")])
    assert methods(group) == ["local", "ditto", "fedavg"]
    assert [(one.method, one.seed) for one in group.histories if one.method == "ditto"] == [
        ("ditto", 0),
        ("ditto", 1),
    ]
    assert group.reference("b/fedavg") == group.reference("fedavg") == "fedavg"


def test_of_a_run_of_both_the_one_that_ended_counts(tmp_path: Path) -> None:
    first = Interrupted(tmp_path / "a", standing(tmp_path / "a", "local").definition, ("local",))
    (group,) = grouped([cast(Experiment, first), standing(tmp_path / "b", "local")])
    assert [(one.seed, one.complete) for one in group.histories] == [(0, True), (1, True)]


@pytest.mark.parametrize(
    "other", [{"rounds": 4}, {"study_digest": "t"}, {"evaluate_every": 2}, {"choice": "no"}], ids=str
)
def test_experiments_that_differ_are_one_group_with_their_directories_names(
    other: dict[str, Any], tmp_path: Path
) -> None:
    (group,) = grouped([standing(tmp_path / "a", "local", "ditto"), standing(tmp_path / "b", "fedavg", **other)])
    assert methods(group) == ["a/local", "a/ditto", "b/fedavg"]
    assert len(group.histories) == 6
    (alone,) = grouped([standing(tmp_path / "c", "local")])
    assert methods(alone) == ["local"]


def test_a_label_means_one_method_on_all_partitions(tmp_path: Path) -> None:
    first, second = grouped([
        standing(tmp_path / "a", "local", "ditto"),
        standing(tmp_path / "b", "local", digest="b", scheme="dirichlet:1"),
        standing(tmp_path / "c", "ditto", "fedavg", rounds=4),
    ])  # fmt: skip
    assert methods(first) == ["local", "a/ditto", "c/ditto", "fedavg"]
    assert methods(second) == ["local"]
    assert (first.name, second.name) == ("iid", "dirichlet:1")


@pytest.mark.parametrize("other", [{"rounds": 4}, {"study_digest": "t"}, {"choice": "no"}, {"pool": "q"}], ids=str)
def test_a_mean_over_partitions_is_of_runs_that_were_made_alike(other: dict[str, Any], tmp_path: Path) -> None:
    first, same, different = grouped([
        standing(tmp_path / "a", "local"),
        standing(tmp_path / "b", "local", digest="b", evaluate_every=2),
        standing(tmp_path / "c", "local", digest="c", **other),
    ])  # fmt: skip
    assert first.kind == same.kind != different.kind


def test_other_records_are_another_partition_even_with_an_equal_digest(tmp_path: Path) -> None:
    found = grouped([standing(tmp_path / "a", "local"), standing(tmp_path / "b", "local", pool="q")])
    assert [methods(group) for group in found] == [["local"], ["local"]]


def test_a_heading_tells_the_options_and_the_digest(tmp_path: Path) -> None:
    options = {"per_site": 40, "validation_share": "0.2"}
    files = tuple(f"folder/{name}.csv" for name in "xyz")
    one, two, three = grouped([
        standing(tmp_path / "a", "local"),
        standing(tmp_path / "b", "local", digest="b", options=options),
        standing(tmp_path / "c", "local", digest="c", options={"split": "given"}, data=files, pool="q"),
    ])  # fmt: skip
    assert one.heading == ("digits: iid, 3 sites, stratified test part of 0.3, partition seed 4 (digest aaaaaaaa)")
    assert "40 training records a site" in two.heading
    assert "0.2 of the training records for validation" in two.heading
    assert three.heading.startswith("x.csv, y.csv and 1 more: iid, 3 sites, the data's own test part")
    assert [group.name for group in (one, two, three)] == [
        "digits iid aaaaaaaa", "digits iid bbbbbbbb", "x.csv, y.csv and 1 more iid"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("ditto", "a/ditto:lam=2"),  # the first of that name
        ("ditto:lam=1", "b/ditto:lam=1"),
        ("b/ditto", "b/ditto:lam=1"),
        ("b/ditto:lam=1", "b/ditto:lam=1"),
        ("a/ditto:lam=1", None),
        ("fedper", None),
    ],
)
def test_a_reference_is_a_name_a_label_or_one_of_a_directory(wanted: str, meant: str | None, tmp_path: Path) -> None:
    (group,) = grouped([standing(tmp_path / "a", "ditto:lam=2"), standing(tmp_path / "b", "ditto:lam=1", rounds=4)])
    assert group.reference(wanted) == meant


def test_a_label_comes_before_the_name_of_a_method(tmp_path: Path) -> None:
    (group,) = grouped(
        [standing(tmp_path / "a", "ditto:lam=2"), standing(tmp_path / "b", "ditto:lam=1", "ditto", rounds=4)]
    )
    assert group.reference("ditto") == "b/ditto"
    assert group.reference("b/ditto") == "b/ditto"
    assert group.reference("a/ditto") == "a/ditto:lam=2"


def test_names_must_tell_directories_apart(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with pytest.raises(Misconfigured, match="one name"):
        grouped([standing(tmp_path / "one/a", "local"), standing(tmp_path / "two/a", "ditto")])


def test_a_directory_is_named_where_it_is_given_as_a_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = standing(tmp_path / "a", "local"), standing(tmp_path / "b", "local", rounds=4)
    monkeypatch.chdir(here.directory)
    (group,) = grouped([cast(Experiment, replace(cast(Standing, here), directory=Path())), there])
    assert methods(group) == ["a/local", "b/local"]
