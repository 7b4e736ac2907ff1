"""What is asked of a simulation, and what is refused or told before anything is trained."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secureproto.errors import Misconfigured
from secureproto.simulation.command import Reporting, Request, session
from secureproto.simulation.heart.hospitals import study_path
from secureproto.simulation.partition.division import Divisions, Options, Partition
from secureproto.simulation.partition.file import digest_of
from secureproto.simulation.planning import Asked, _short_of_validation, prepare, require_versions, run_options
from secureproto.simulation.population import SiteRows
from secureproto.simulation.run import RunOptions


def study(folder: Path, **keys: object) -> Path:
    """The heart study with other values of some keys."""
    text = study_path().read_text().replace("quorum = 3", "quorum = 3\nparticipation = 1.0")
    for key, value in keys.items():
        text, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
        assert count == 1
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


def asked(folder: Path, keys: dict[str, object], **values: Any) -> Asked:
    return Request.model_validate({"study": study(folder, **keys), "rounds": 1, "seeds": 1, **values})


@pytest.mark.parametrize(
    ("quorum", "values", "sites"),
    [
        (3, {"partition": "iid", "sites": 2}, "2 sites"),
        (3, {"partition": "iid", "sites": 1}, "1 site"),
        (5, {}, "4 sites"),
        (6, {"partition": "iid", "sites": 5, "repeated": True, "seeds": 2}, "5 sites"),
    ],
)
def test_fewer_sites_than_the_quorum_are_refused(
    quorum: int, values: dict[str, Any], sites: str, tmp_path: Path
) -> None:
    with pytest.raises(Misconfigured) as caught:
        prepare(asked(tmp_path, {"quorum": quorum}, **values))
    assert caught.value.message == (
        f"study heart: rounds.quorum is {quorum}, and the partition has {sites}: no round would count"
    )
    assert caught.value.hint.startswith(f"{quorum} sites or more, or rounds.quorum = {sites.split()[0]} in a study")


def test_as_many_sites_as_the_quorum_are_taken(tmp_path: Path) -> None:
    assert prepare(asked(tmp_path, {"quorum": 4})).study.rounds.quorum == 4
    # of a share of the sites the quorum is taken all the same
    assert prepare(asked(tmp_path, {"quorum": 4, "participation": 0.1})).study.rounds.quorum == 4


@pytest.mark.parametrize(
    ("least", "told"),
    [
        (3, []),
        (4, ["no global prototype of healthy (3); in brackets the sites that train on the class"]),
        (5, ["no class has so many holders (healthy (3), disease (4)): the alignment term does nothing"]),
    ],
)
def test_classes_without_holders_are_told_once_before_anything_is_trained(
    least: int, told: list[str], tmp_path: Path
) -> None:
    said: list[str] = []
    with session(asked(tmp_path, {"min_holders": least}, methods=("protoaligned",)), tmp_path / "out", said.append):
        pass
    found = [line for line in said if "min_holders" in line]
    assert found == [f"prototypes.min_holders is {least}: {line}" for line in told]


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (0.2, []),
        (
            0.999,
            ["3 of 4 sites keep less than the 0.999 asked for (long-beach 0.98): a class keeps a record to train on"],
        ),
    ],
)
def test_fewer_validation_records_than_asked_for_are_told(share: float, told: list[str], tmp_path: Path) -> None:
    values = {"partition": "iid", "sites": 4} if share == 0.2 else {}
    found = [line for line in prepare(asked(tmp_path, {}, validation=share, **values)).told() if "asked for" in line]
    assert found == [f"validation: {line}" for line in told]


def test_runs_that_were_asked_for_are_known_before_they_are_begun(tmp_path: Path) -> None:
    from secureproto.simulation.command import Reporting, compare_directories

    with session(asked(tmp_path, {}), tmp_path / "out", lambda _: None) as opened:
        for label in ("local", "fedper"):
            opened.experiment.ask(label, 0)
        opened.go("local", 0)
        opened.experiment.ask("local", 0)  # changes nothing
    found = compare_directories([tmp_path / "out"], Reporting(), None, lambda _: None)
    failures = [(one.method, one.seed, one.reason) for one in found.summary.failures]
    assert failures == [("fedper", 0, "asked for and not begun")]


@pytest.mark.parametrize("key", ["alignment_weight=4.0", "alignment_warmup_rounds=1"])
def test_a_key_that_would_do_nothing_is_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no key 'alignment_"):
        prepare(asked(tmp_path, {}, methods=(f"fedavg:{key}",)))
    prepare(asked(tmp_path, {}, methods=(f"protoaligned:{key}",)))


def test_every_option_of_a_partition_reaches_it(tmp_path: Path) -> None:
    values = {"partition": "iid", "sites": 5, "per_site": 20, "split": "stratified"}
    ground = prepare(asked(tmp_path, {}, **values, test_share=0.4, validation=0.25, partition_seed=3))
    assert ground.divisions.partitions[0].options == Options(
        sites=5, per_site=20, split="stratified", test_share=0.4, validation_share=0.25, seed=3
    )


def test_a_new_split_for_each_seed_is_drawn_from_the_first_seed_on(tmp_path: Path) -> None:
    told = asked(tmp_path, {}, repeated=True, seeds=2, first_seed=5, test_share=0.4)
    assert list(told.seed_numbers) == [5, 6]
    found = prepare(told).divisions
    assert [(one.options.seed, one.options.split) for one in found.partitions] == [
        (5, "stratified"),
        (6, "stratified"),
    ]
    with session(told, tmp_path / "out", lambda _: None) as opened:
        assert opened.experiment.definition.redrawn_ratio == pytest.approx(0.4 / 0.6, rel=0.02)


def test_how_runs_are_done_is_as_asked_for(tmp_path: Path) -> None:
    told = asked(tmp_path, {}, evaluate_every=4, factories=("a.b:c",), choice=False)
    assert run_options(told) == RunOptions(4, ("a.b:c",), choice=False)


@pytest.mark.parametrize("values", [{}, {"validation": 0.2}, {"per_site": 20}])
def test_the_ratio_of_new_splits_is_of_records_that_are_tested_and_trained_on(
    values: dict[str, Any], tmp_path: Path
) -> None:
    told = asked(tmp_path, {}, repeated=True, seeds=2, **values)
    tested = trained = 0
    for partition in prepare(told).divisions.partitions:
        for rows in partition.sites.values():
            tested, trained = tested + len(rows.test), trained + len(rows.train)
    with session(told, tmp_path / "out", lambda _: None) as opened:
        assert opened.experiment.definition.redrawn_ratio == tested / trained


def test_of_several_splits_the_shortest_validation_part_of_a_site_is_told() -> None:
    def split(held: int) -> Partition:
        rows = np.arange(40)
        sites = {"a": SiteRows(rows[held:20], rows[20:], rows[:held])}
        return Partition("natural", Options(split="stratified", validation_share=0.5), "digest", sites)

    for order in ((2, 6), (6, 2)):
        (line,) = _short_of_validation(Divisions(tuple(map(split, order)), repeated=True))
        assert "(a 0.10)" in line


def test_a_version_cannot_be_chosen_where_only_the_last_is_scored_at_all_sites(tmp_path: Path) -> None:
    require_versions(prepare(asked(tmp_path, {"participation": 0.9})), "this")  # that is all of four sites
    with pytest.raises(Misconfigured, match=r"this has only the last version to choose from: a round takes 0\.5 of"):
        require_versions(prepare(asked(tmp_path, {"participation": 0.5})), "this")


def test_what_draws_nothing_makes_no_other_partition(tmp_path: Path) -> None:
    """Natural sites with the data's own test part: no number is drawn."""
    plain = prepare(asked(tmp_path, {})).divisions
    for idle in ({"partition_seed": 7}, {"test_share": 0.9}):
        assert digest_of(prepare(asked(tmp_path, {}, **idle)).divisions) == digest_of(plain)
    for drawing in ({"split": "stratified"}, {"validation": 0.2}, {"per_site": 20}):
        one, other = (prepare(asked(tmp_path, {}, partition_seed=seed, **drawing)).divisions for seed in (0, 7))
        assert digest_of(one) != digest_of(other)


def test_classes_that_a_partition_leaves_out_are_told(tmp_path: Path) -> None:
    ground = prepare(asked(tmp_path, {"quorum": 1}, partition="pathological:1", sites=1))
    (line,) = (line for line in ground.told() if line.startswith("partition: no site has records of "))
    assert line.removeprefix("partition: no site has records of ").partition(" ")[0] in ("healthy", "disease")
    assert not any("no site has" in line for line in prepare(asked(tmp_path, {})).told())


@pytest.mark.parametrize("methods", [(), (",",), (" , ,",)])
def test_no_method_named_is_told_and_not_taken_for_the_baselines_alone(
    methods: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(Misconfigured, match="no method is named"):
        prepare(asked(tmp_path, {}, methods=methods))


@pytest.mark.parametrize("target", [float("nan"), float("inf"), -0.1, 1.1])
def test_a_target_that_is_no_accuracy_is_refused_wherever_results_are_told(target: float) -> None:
    with pytest.raises(Misconfigured, match="--target is an accuracy from 0 to 1"):
        Reporting(target=target)
