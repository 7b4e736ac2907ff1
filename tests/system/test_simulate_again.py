"""`secureproto simulate` on what is there already: a saved partition, a damaged experiment, a path that is taken."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from secureproto.cli.root import run
from secureproto.simulation.experiment import Experiment
from secureproto.simulation.heart.hospitals import data_path, study_path

pytestmark = pytest.mark.system


def simulate(*arguments: object) -> int:
    return run(["simulate", *map(str, arguments)])


REUSED: list[tuple[list[str], str]] = [
    (["--validation", "0.2"], "--validation is settled"),
    (["--sites", "2"], "--sites is settled"),
    (["--repeated"], "--repeated is settled"),
    (["--report", "validation"], "needs validation records"),
]


@pytest.mark.parametrize(("arguments", "told"), REUSED, ids=lambda value: str(value)[:30])
def test_a_saved_partition_settles_the_division(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tmp_path / "first"
    short = ["--rounds", 1, "--seeds", 1, "--without-baselines"]
    assert simulate("run", study_path(), *short, "--out", first) == 0
    capsys.readouterr()
    again = [*short, "--partition", first / "partition.json", *arguments, "--out", tmp_path / "again"]
    assert simulate("run", study_path(), *again) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "again/runs").exists()


def test_a_repeated_partition_keeps_its_intervals_when_it_is_used_again(tmp_path: Path) -> None:
    short = ["--rounds", 1, "--seeds", 2, "--without-baselines", "--methods", "local,fedavg"]
    assert simulate("run", study_path(), *short, "--repeated", "--out", tmp_path / "a") == 0
    again = [*short, "--partition", tmp_path / "a/partition.json", "--out", tmp_path / "b"]
    assert simulate("run", study_path(), *again) == 0
    a, b = (json.loads((tmp_path / name / "results.json").read_text()) for name in "ab")
    assert a["redrawn"] == pytest.approx(0.3 / 0.7)
    assert a["to_reference"] == b["to_reference"]


def begun(directory: Path) -> Path:
    """A tiny finished experiment."""
    short = ["--rounds", 1, "--seeds", 1, "--without-baselines", "--methods", "local,fedavg"]
    assert simulate("run", study_path(), *short, "--out", directory) == 0
    return directory


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def swap(path: Path) -> None:
    path.write_bytes((path.parents[1] / "local/0.sqlite").read_bytes())


DAMAGE: list[tuple[str, Callable[[Path], object]]] = [
    ("partition.json", cut),
    ("partition.json", Path.unlink),
    ("study.toml", cut),
    ("runs/fedavg/0.sqlite", swap),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGE, ids=lambda value: getattr(value, "__name__", value))
def test_a_damaged_experiment_is_not_compared(
    name: str, damage: Callable[[Path], object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = begun(tmp_path / "x")
    damage(directory / name)
    capsys.readouterr()
    assert simulate("compare", directory) == 6
    assert len(capsys.readouterr().err.strip().splitlines()) <= 2


def test_what_a_kill_at_the_very_start_leaves_is_no_obstacle(tmp_path: Path) -> None:
    directory = tmp_path / "x"
    directory.mkdir()
    (directory / "study.toml").write_bytes(study_path().read_bytes()[:100])
    (directory / ".experiment.json.draft").write_bytes(b"{")
    begun(directory)
    (directory / "partition.svg").unlink()
    begun(directory)
    assert (directory / "partition.svg").exists()


def test_an_out_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert simulate("run", study_path(), "--rounds", 1, "--out", tmp_path / "file/x") == 3
    assert simulate("compare", begun(tmp_path / "a"), "--out", tmp_path / "nowhere/page.html") == 3
    assert "cannot write" in capsys.readouterr().err


def test_fewer_runs_than_were_asked_for_before_can_be_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever stops 20 seeds and is content with one is not told for ever of those that were never begun."""
    arguments = [study_path(), "--methods", "local", "--without-baselines", "--rounds", 1, "--out", tmp_path / "out"]
    assert simulate("run", *arguments, "--seeds", 1) == 0
    experiment = Experiment.open(tmp_path / "out")
    for seed in range(1, 20):
        experiment.ask("local", seed)
    assert simulate("run", *arguments, "--seeds", 1) == 0
    assert "local   1 of 20 " in capsys.readouterr().out  # and yet it is told


def test_a_run_that_diverged_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    methods = ["--methods", "fedavg:learning_rate=1e30", "--without-baselines", "--rounds", 1, "--seeds", 1]
    assert simulate("run", study_path(), *methods, "--out", tmp_path / "out") == 8
    assert "error: 1 of the runs did not end: fedavg:learning_rate=1e30 with seed 0: div" in capsys.readouterr().err


def test_paths_that_are_no_text_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"caf\xe9.csv")
    shutil.copy(data_path(), odd)
    arguments = [
        "--data",
        odd,
        "--site-column",
        "site",
        "--split-column",
        "split",
        "--methods",
        "local",
        "--rounds",
        1,
    ]
    out = os.fsdecode(b"o\xe9")
    for _ in range(2):
        assert simulate("run", study_path(), *arguments, "--seeds", 1, "--without-baselines", "--out", out) == 0
    assert simulate("compare", out) == 0


def test_tuning_that_chooses_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--methods", "fedavg", "--grid", "learning_rate=1e30", "--validation", "0.2", "--rounds", 1]
    assert simulate("tune", study_path(), *arguments, "--seeds", 1, "--out", tmp_path / "out") == 8
    assert "error: tune: nothing is chosen for fedavg" in capsys.readouterr().err
