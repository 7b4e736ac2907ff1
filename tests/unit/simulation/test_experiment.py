"""An experiment: its seeds are runs of their own, labels keep their settings, and rounds fit the study."""

from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import load

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured
from secureproto.simulation.definition import Definition
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.experiment import Execution, Experiment, runs_of, with_fine_tuned, with_rounds
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.simulation.run import KEPT, RunOptions
from secureproto.simulation.store import SHARED, RunStore
from secureproto.study.file import digest
from support.histories import history
from support.learning import blobs, tabular_study
from support.sim_study import SimStudy

EXECUTION = Execution(RunOptions(), lambda _: None, models=False)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    text = SimStudy(total=1).file()
    definition = Definition(
        study="small", study_digest=digest(text), data=("x",), pool_digest="p", partition="iid",
        partition_digest="d", split="stratified", rounds=1, evaluate_every=1, choice="no",
    )  # fmt: skip
    return Experiment.begin(tmp_path / "out", definition, text)


def test_runs_of_two_seeds_differ(experiment: Experiment) -> None:
    records = [blobs(12, width=1, classes=2, seed=seed) for seed in (0, 1)]
    sites = GivenSites({"a": SiteData(records[0], records[1])})
    found = []
    for seed in (0, 1):
        experiment.run("fedavg", seed, sites, InProcess(), EXECUTION)
        store = RunStore(experiment.store_path("fedavg", seed), reading=True)
        found.append({name: array.tobytes() for name, array in store.get(SHARED).items()})
        store.close()
    assert found[0]
    assert all(found[0][name] != found[1][name] for name in found[0])


def test_another_division_of_the_records_is_told_with_what_settles_it(experiment: Experiment) -> None:
    asked = experiment.definition.model_copy(update={"partition_digest": "e"})
    with pytest.raises(Conflict, match="another division of the records") as caught:
        Experiment.begin(experiment.directory, asked, SimStudy(total=1).file())
    assert "--sites, --per-site, seeds and split" in caught.value.hint


def test_a_run_that_was_asked_for_is_not_another_s(experiment: Experiment) -> None:
    """Its file, put under another method's name before anything is trained."""
    records = blobs(4, width=1, classes=2)
    experiment.ask("fedavg", 0)
    other = experiment.store_path("local", 0)
    other.parent.mkdir()
    experiment.store_path("fedavg", 0).rename(other)
    with pytest.raises(IntegrityBroken, match="another method or seed"):
        experiment.run("local", 0, GivenSites({"a": SiteData(records, records)}), InProcess(), EXECUTION)


def test_fine_tuning_is_read_from_the_run_with_the_same_settings() -> None:
    study = tabular_study()
    assert runs_of(["fedavg-ft:learning_rate=0.2"], study) == ["fedavg:learning_rate=0.2"]
    assert runs_of(["fedavg-ft", "fedavg", "local"], study) == ["fedavg", "local"]


def test_what_is_read_fine_tuned_keeps_the_settings_in_its_label() -> None:
    found = with_fine_tuned([history("fedavg:learning_rate=0.2", 0), history("fedavg", 0), history("ditto", 0)])
    labels = ["fedavg", "fedavg:learning_rate=0.2", "fedavg-ft", "fedavg-ft:learning_rate=0.2", "ditto"]
    assert [one.method for one in found] == labels


def test_rounds_are_more_than_the_patience_of_the_stopping_rule() -> None:
    study = tabular_study(rounds={"total": 9}, stopping={"relative_tolerance": 0.1, "patience": 3})
    with pytest.raises(Misconfigured, match=r"^--rounds 3: not more than the study's stopping.patience"):
        with_rounds(study, 3)
    assert with_rounds(study, 4).rounds.total == 4
    assert with_rounds(tabular_study(), 1).rounds.total == 1


@pytest.mark.parametrize("method", ["local", "ditto"])
def test_what_a_site_keeps_is_among_the_models(experiment: Experiment, method: str) -> None:
    records = blobs(6, width=1, classes=2)
    execution = replace(EXECUTION, models=True)
    experiment.run(method, 0, GivenSites({"a": SiteData(records, records)}), InProcess(), execution)
    store = RunStore(experiment.store_path(method, 0), reading=True)
    kept = store.get(KEPT + "a")
    store.close()
    saved = load((experiment.directory / "models" / method / "0" / "a.kept.safetensors").read_bytes())
    assert kept
    assert {name: array.tobytes() for name, array in saved.items()} == {
        name: array.tobytes() for name, array in kept.items()
    }


def test_a_warm_up_is_no_longer_than_the_rounds() -> None:
    study = tabular_study(training={"alignment_warmup_rounds": 3}, rounds={"total": 5})
    assert with_rounds(study, 3).rounds.total == 3
    with pytest.raises(Misconfigured, match="warm-up"):
        with_rounds(study, 2)
