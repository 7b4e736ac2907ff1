"""`simulate privacy-curve` and a private `simulate run` as a researcher uses them: files, resuming, bad input."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from secureproto.cli.root import run
from secureproto.simulation.heart.hospitals import study_path

pytestmark = pytest.mark.system

PRIVACY = """
[privacy]
max_epsilon_study = 5.0
max_delta = 1e-3
[privacy.training]
noise_multiplier = 8.0
max_grad_norm = 1.0
sample_rate = 0.5
steps = 4
expected_batch = 80
learning_rate = 0.8
[privacy.prototypes]
noise_multiplier = 20.0
"""


def simulate(*arguments: object) -> int:
    return run(["simulate", *map(str, arguments)])


def study(directory: Path, text: str = PRIVACY) -> Path:
    """The installed study of the four hospitals, with a section."""
    plain = study_path().read_text()
    path = directory / "private.toml"
    path.write_text(plain.replace("embedding_width = 16", "embedding_width = 16\nnormalise_embedding = true") + text)
    return path


def test_a_curve_and_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["privacy-curve", study(tmp_path), "--rounds", 4, "--seeds", 1, "--no-choice", "--epsilons", "8,1"]
    assert simulate(*asked, "--out", tmp_path / "out", "-o", "json") == 0
    talk = capsys.readouterr()
    rows = json.loads(talk.out)
    assert [row["epsilon"] for row in rows] == [None, None, 1.0, 8.0, None]
    assert {row["method"] for row in rows if row["epsilon"] is None} == {
        "majority",
        "local",
        "protoaligned:privacy=off",
    }
    assert ", 1 by the gate (RDP at order " in talk.err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Accuracy against ε" in page
    assert "published, FLamby 2022" in page
    assert simulate(*asked, "--out", tmp_path / "out", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == rows


@pytest.mark.parametrize("epsilons", ["", "1,,2", "nan", "inf", "0", "-1", "1,x", "20000"])
def test_budgets_that_are_none(epsilons: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("privacy-curve", study(tmp_path), "--epsilons", epsilons, "--out", tmp_path / "out") == 2
    assert "--epsilons" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_curve_needs_a_plan_and_different_budgets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("privacy-curve", study_path(), "--out", tmp_path / "out") == 2
    assert "has no [privacy.training]" in capsys.readouterr().err
    assert simulate("privacy-curve", study(tmp_path), "--epsilons", "1,1.0", "--out", tmp_path / "out") == 2
    assert "given twice" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_plan_over_its_budget_is_not_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = study(tmp_path, PRIVACY.replace("noise_multiplier = 8.0", "noise_multiplier = 1.0"))
    assert simulate("run", path, "--rounds", 30, "--out", tmp_path / "out") == 5
    error = capsys.readouterr().err
    assert "over the study's 5" in error
    assert "rounds fit" in error
    assert not (tmp_path / "out").exists()


def test_killed_and_gone_on_with_a_private_run_has_the_same_numbers(tmp_path: Path) -> None:
    path = study(tmp_path)
    asked = ["run", str(path), "--rounds", "12", "--seeds", "1", "--no-choice", "--without-baselines", "--no-models"]
    command = [sys.executable, "-m", "secureproto.cli", "simulate", *asked, "--out"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*command, str(whole)], check=True, capture_output=True)
    with subprocess.Popen([*command, str(broken)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "round 4 of 12" in line:
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    assert not (broken / "results.csv").exists()
    subprocess.run([*command, str(broken)], check=True, capture_output=True)
    assert (broken / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()
