"""Benches take hours and run by hand: that they can still be started is looked at here."""

import importlib.util
import sys
from argparse import Namespace
from json import dumps
from pathlib import Path
from types import ModuleType

import pytest

from secureproto.simulation.experiment import runs_of
from secureproto.simulation.history import History
from secureproto.simulation.tuning import planned
from secureproto.study.file import load

BENCHES = Path(__file__).parents[2] / "ops" / "bench"
PROGRAMS = sorted(path.stem for path in BENCHES.glob("*.py"))


def bench(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A bench as a module, beside the others, as its own process would have it."""
    monkeypatch.syspath_prepend(str(BENCHES))
    spec = importlib.util.spec_from_file_location(name, BENCHES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_bench_has_all_that_it_imports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench(name, monkeypatch).__doc__


def test_the_runs_of_the_hospitals_can_be_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heart = bench("heart", monkeypatch)
    assert all(len(candidates) == 8 for candidates in planned(heart.tuning(tmp_path)).values())
    for repeated in (False, True):
        asked = heart.request(Namespace(work=tmp_path, seeds=10, splits=20), repeated=repeated)
        runs = runs_of(asked.labels, load(asked.study))
        assert {*heart.PEERS, heart.OURS, *heart.chosen()} <= set(runs)


def test_the_runs_on_fashion_mnist_can_be_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fashion = bench("fashion_mnist", monkeypatch)
    assert set(planned(fashion.tuning(fashion.WITH_A_GRID, tmp_path))) == set(fashion.WITH_A_GRID)
    rates = planned(fashion.tuning(fashion.with_chosen(fashion.ALL, fashion.TUNING), tmp_path, "learning_rate=1,2"))
    assert {len(found) for found in rates.values()} == {2}
    for name, setting in fashion.SETTINGS.items():
        asked = fashion.request(name, fashion.labels_of(setting, setting.methods), tmp_path)
        assert len(runs_of(asked.labels, load(asked.study))) == len(setting.methods)


def test_a_run_that_diverges_in_its_first_round_is_kept_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fashion = bench("fashion_mnist", monkeypatch)
    monkeypatch.setattr(fashion, "RESULTS", tmp_path)
    lost = History(
        method="local", title="Own data only", seed=1, rounds=(), complete=False, failure="diverged in round 0"
    )
    found = fashion.kept(lost, "0" * 64)
    assert found["failure"] == "diverged in round 0"
    assert (found["sites"], found["bytes_sent_a_site"]) == ({}, 0)
    (tmp_path / "iid").mkdir()
    (tmp_path / "iid" / "local.1.json").write_text(dumps(found))
    fashion.table()
    assert " ".join(capsys.readouterr().out.split()) == "iid: iid, 40 rounds local seeds 0 of 1"


def test_a_setting_has_the_best_of_the_rates_that_it_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    fashion = bench("fashion_mnist", monkeypatch)
    rates = {
        name: {label.rpartition(":learning_rate=")[2] for label in fashion.labels_of(setting, setting.methods)}
        for name, setting in fashion.SETTINGS.items()
        if not setting.published_rate
    }
    assert rates == {"dirichlet-0.1": {"0.1"}, "dirichlet-1": {"0.1"}, "iid": {"0.1"}, "two-classes": {"0.03"}}
    published = fashion.labels_of(fashion.SETTINGS["fedpac"], fashion.ALL)
    assert not [label for label in published if ":learning_rate=" in label]
