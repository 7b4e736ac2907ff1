"""`secureproto simulate` on what is there already: a saved partition, a damaged experiment, a path that is taken."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from secureproto.cli.root import run
from secureproto.simulation.heart.hospitals import study_path

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
