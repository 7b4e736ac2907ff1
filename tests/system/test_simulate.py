"""`secureproto simulate` as a researcher uses it: a comparison, its files, going on after a kill, and bad input."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secureproto.cli.root import run
from secureproto.simulation.heart.hospitals import study_path

pytestmark = pytest.mark.system

SHORT = ["--rounds", "4", "--seeds", "2", "--methods", "protoaligned"]


def simulate(*arguments: object) -> int:
    return run(["simulate", *map(str, arguments)])


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small comparison on the four hospitals, with validation records."""
    directory = tmp_path_factory.mktemp("simulate") / "heart"
    assert simulate("run", study_path(), *SHORT, "--validation", "0.2", "--target", "0.6", "--out", directory) == 0
    return directory


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def scores(directory: Path) -> list[dict[str, str]]:
    return rows(directory / "results.csv")


def test_every_table_carries_majority_local_and_fine_tuned_fedavg(out: Path) -> None:
    methods = {row["method"] for row in scores(out)}
    assert methods == {"majority", "local", "fedavg", "fedavg-ft", "protoaligned"}


def test_what_was_compared_lies_beside_the_scores(out: Path) -> None:
    inputs = ("experiment.json", "study.toml", "partition.json", "partition.svg")
    for name in (*inputs, "results.json", "summary.csv", "report.html"):
        assert (out / name).stat().st_size > 0
    assert (out / "study.toml").read_bytes() == study_path().read_bytes()
    models = {path.name for path in (out / "models/protoaligned/1").iterdir()}
    assert models == {"shared.safetensors", *(f"{site}.personal.safetensors" for site in HOSPITALS)}


HOSPITALS = ("cleveland", "hungary", "long-beach", "switzerland")


def test_every_site_is_scored_at_both_points_in_every_round(out: Path) -> None:
    ours = [row for row in scores(out) if row["method"] == "protoaligned" and row["part"] == "test"]
    seen = {(row["seed"], row["round"], row["site"], row["point"]) for row in ours if row["point"] != "chosen"}
    expected = {
        (seed, str(number), site, point)
        for seed in "01"
        for number in range(5)
        for site in HOSPITALS
        for point in ("received", "tuned")
    }
    assert seen == expected
    assert {row["n"] for row in ours if row["site"] == "switzerland"} == {"16"}  # FLamby's split


def test_fine_tuned_fedavg_is_what_a_fedavg_site_has_after_training(out: Path) -> None:
    def of(method: str, point: str) -> list[tuple[str, ...]]:
        return [
            tuple(row[key] for key in ("seed", "round", "site", "part", "accuracy", "auc"))
            for row in scores(out)
            if (row["method"], row["point"]) == (method, point)
        ]

    assert of("fedavg-ft", "tuned") == of("fedavg", "tuned")
    assert not of("fedavg-ft", "received")


@pytest.fixture(scope="module")
def iid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another partition of the same records."""
    directory = tmp_path_factory.mktemp("simulate") / "iid"
    arguments = [*SHORT, "--partition", "iid", "--sites", 3, "--without-baselines", "--out", directory]
    assert simulate("run", study_path(), *arguments) == 0
    return directory


def test_compare_ranks_and_pairs_within_a_partition_only(
    out: Path, iid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert simulate("compare", out, iid, "--out", page, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    first, second = found["partitions"]
    assert (first["name"], second["name"]) == ("natural", "iid")
    assert "iid, 3 sites, " in second["heading"]
    assert second["digest"][:8] in second["heading"]
    assert {method["label"] for method in second["methods"]} == {"protoaligned"}
    assert first["reference"] == "local"
    assert second["reference"] is None  # not among its methods
    assert first["to_reference"]
    assert not second["to_reference"]
    assert not second["of_best"]
    ours = next(one for one in found["across"] if (one["method"], one["point"]) == ("protoaligned", "tuned"))
    means = [at["mean"]["mean"] for at in ours["by_part"].values()]
    assert ours["mean"] == pytest.approx(sum(means) / 2)
    text = page.read_text()
    assert text.count(found["note"]) == 1
    assert "Methods by partition" in text
    assert f"partition seed 0 (digest {second['digest'][:8]})</h2>" in text
    alone = tmp_path / "alone.html"
    assert simulate("compare", out, "--out", alone) == 0
    assert found["note"] not in alone.read_text()


def test_two_draws_of_one_scheme_are_told_apart(
    iid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--partition", "iid", "--sites", 3, "--partition-seed", 1, "--without-baselines", "--rounds", 1]
    assert simulate("run", study_path(), *arguments, "--out", tmp_path / "again") == 0
    capsys.readouterr()
    assert simulate("compare", iid, tmp_path / "again", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["partitions"]] == [f"iid {one['digest'][:8]}" for one in found["partitions"]]
    assert ["partition seed 0" in found["partitions"][0]["heading"], "partition seed 1" in
            found["partitions"][1]["heading"]] == [True, True]  # fmt: skip
    assert simulate("compare", iid, tmp_path / "again", "--out", tmp_path / "page.html") == 0
    assert "differ in more than methods and partition: numbers of rounds" in (tmp_path / "page.html").read_text()


def test_a_label_that_two_different_experiments_of_a_partition_hold_keeps_its_directory(
    out: Path, iid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again"
    arguments = [*SHORT[:-1], "protoaligned,fedper", "--without-baselines", "--partition", iid / "partition.json"]
    assert simulate("run", study_path(), *arguments, "--evaluate-every", 2, "--out", again) == 0
    capsys.readouterr()
    assert simulate("compare", out, iid, again, "--reference", "iid/protoaligned", "-o", "jsonl") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = {row["method"] for row in found if row["partition"] == "iid"}
    assert names == {"iid/protoaligned", "again/protoaligned", "fedper"}
    assert {row["reference"] for row in found} == {"iid/protoaligned", None}


def test_the_forms_of_a_comparison(out: Path, iid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*arguments: object) -> str:
        capsys.readouterr()
        assert simulate("compare", *arguments) == 0
        return capsys.readouterr().out

    lines = [json.loads(line) for line in shown(out, "-o", "jsonl").splitlines()]
    keys = [(row["method"], row["point"], row["measure"]) for row in lines]
    assert len(keys) == len(set(keys)) == 4 * 2 * 3 + 3 + 3 * ("chosen" in {key[1] for key in keys})
    assert set(lines[0]) == set(rows(out / "summary.csv")[0])
    assert {row["sites_defined"] for row in lines if row["measure"] == "auc"} == {4}
    table = shown(out)
    assert "vs local" in table
    assert " sites)" not in table  # the AUC is defined at all of them
    assert "MB a site sent" in table
    assert "mean of 2 partitions" in shown(out, iid)


def test_a_reference_that_is_none_is_refused(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("compare", out, "--reference", "zzz") == 2
    assert "--reference zzz: is none of the methods" in capsys.readouterr().err


def test_a_reference_may_be_whatever_the_table_holds(out: Path) -> None:
    """FedAvg is trained for its fine-tuning; fedper was asked for another time."""
    for reference in ("fedavg", "fedavg-ft", "protoaligned"):
        arguments = [*SHORT[:-1], "majority", "--validation", "0.2", "--out", out, "--reference", reference]
        assert simulate("run", study_path(), *arguments) == 0


def test_a_study_of_one_s_own_says_where_its_records_lie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "own.toml"
    study.write_text(study_path().read_text().replace('name = "heart"', 'name = "own"'))
    assert simulate("run", study, "--seeds", 1) == 2
    assert "say where the records lie: --data" in capsys.readouterr().err


def test_experiments_on_one_partition_are_paired(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "again"
    arguments = [*SHORT[:-1], "fedper", "--without-baselines", "--partition", out / "partition.json", "--out", other]
    assert simulate("run", study_path(), *arguments) == 0
    capsys.readouterr()
    assert simulate("compare", out, other, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reference"] == "local"
    assert "fedper" in {comparison["method"] for comparison in found["to_reference"]}


def test_more_methods_are_added_and_what_is_done_is_not_done_again(out: Path, tmp_path: Path) -> None:
    before = (out / "runs/local/0.sqlite").stat().st_mtime_ns
    assert simulate("run", study_path(), *SHORT[:-1], "fedper", "--validation", "0.2", "--out", out) == 0
    assert (out / "runs/local/0.sqlite").stat().st_mtime_ns == before
    assert "fedper" in {row["method"] for row in scores(out)}


def killed_at_round(number: int, how: int) -> Callable[[list[str]], int]:
    """Runs the program and signals it once it told of a round."""

    def until(arguments: list[str]) -> int:
        command = [sys.executable, "-m", "support.program", "simulate", "run", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as program:
            assert program.stderr is not None
            for line in program.stderr:
                if f"round {number} of" in line:
                    program.send_signal(how)
                    break
            program.stderr.read()
        return program.returncode

    return until


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_an_interrupted_run_goes_on_with_the_same_numbers(how: int, code: int, tmp_path: Path) -> None:
    # so many rounds that the run is not over before the signal arrives
    arguments = [str(study_path()), "--rounds", "20", "--seeds", "1", "--without-baselines", "--out"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(["simulate", "run", *arguments, str(whole)]) == 0
    assert killed_at_round(2, how)([*arguments, str(broken)]) == code
    done = [row["round"] for row in unfinished(broken)]
    assert done
    assert "20" not in done
    assert run(["simulate", "run", *arguments, str(broken)]) == 0
    assert scores(broken) == scores(whole)


def unfinished(directory: Path) -> list[dict[str, str]]:
    """The rounds that a run has behind it, as `compare` reads them."""
    from secureproto.simulation.experiment import Experiment

    (history,) = Experiment.open(directory).histories()
    assert not history.complete
    return [{"round": str(record.number)} for record in history.rounds]


def test_the_same_methods_get_the_same_partition_and_another_is_refused(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate("run", study_path(), *SHORT, "--partition", "iid", "--sites", 4, "--out", out) == 7
    assert "holds another experiment (another partition" in capsys.readouterr().err


def test_a_run_that_diverges_is_told_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    methods = "fedavg:learning_rate=1e30,protoaligned"
    arguments = ["--rounds", 2, "--seeds", 1, "--methods", methods, "--without-baselines", "--out", tmp_path / "x"]
    assert simulate("run", study_path(), *arguments) == 8
    told = capsys.readouterr()
    assert (
        "fedavg:learning_rate=1e30 with seed 0: diverged in round 0: the cross entropy is no longer finite"
        in told.err
    )
    assert "protoaligned" in told.out


def test_tuning_reads_validation_records_and_says_what_to_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--methods", "fedprox:mu=0.1", "--grid", "learning_rate=0.05,1e-6", "--rounds", 3, "--seeds", 1]
    assert (
        simulate("tune", study_path(), *arguments, "--validation", "0.25", "--out", tmp_path / "t", "-o", "json") == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [row["chosen"] for row in found] == ["use this", ""]
    assert found[0]["candidate"] == "fedprox:mu=0.1:learning_rate=0.05"
    assert found[0]["validation accuracy"] > found[1]["validation accuracy"]


BAD: list[tuple[list[Any], int, str]] = [
    (["--methods", "fedprix"], 2, "no method 'fedprix'"),
    (["--methods", "fedprox:mi=1"], 2, "no key 'mi'"),
    (["--methods", "fedprox:mu=much"], 2, "mu is a number"),
    (["--methods", "local,local"], 2, "given twice"),
    (["--methods", "fedprox:mu=0.1,fedprox:mu=0.10"], 2, "in other words"),
    (["--methods", "fedprox,fedprox:mu=0.01"], 2, "in other words"),
    (["--data", "hart"], 2, "hart"),
    (["--partition", "dirichlet:0"], 2, "dirichlet"),
    (["--partition", "dirichelt:1", "--sites", "3"], 2, "did you mean dirichlet?"),
    (["--partition", "iid", "--sites", "5000"], 2, "5000"),
    (["--partition", "pathological:3", "--sites", "3"], 2, "classes"),
    (["--partition", "missing.json"], 2, "missing.json"),
    (["--rounds", "0"], 2, "rounds"),
    (["--rounds", "1000001"], 2, "--rounds"),
    (["--evaluate-every", "9007199254740993"], 2, "--evaluate-every"),
    (["--methods", "fedprox:mu=1e39"], 2, "mu is a number from 0 on, up to 1e38"),
    (["--repeated", "--split", "given"], 2, "--repeated"),
    (["--workers", "2"], 2, "--engine ray"),
    (["--report", "validation"], 2, "validation"),
    (["--data", "cifar10"], 2, "cifar10"),
    (["--methods", "", "--without-baselines"], 2, "no method"),
    (["--methods", "fedprox:mu=1:mu=2"], 2, "mu is given twice"),
    (["--methods", "fedavg:"], 2, "is not key=value"),
    (["--methods", "fedprox:mu=1" + 400 * "0"], 2, "over 120 characters"),
    (["--methods", "fedprox:mu=1e999"], 2, "mu"),
    (["--rounds", "1", "--methods", "protoaligned:alignment_warmup_rounds=9"], 2, "warm-up"),
    (["--reference", "nosuch"], 2, "--reference"),
    (["--target", "nan"], 2, "--target"),
    (["--partition", "iid", "--sites", 22 * "9"], 2, "--sites"),
    (["--first-seed", 22 * "9"], 2, "--first-seed"),
]


@pytest.mark.parametrize(("arguments", "code", "told"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input_is_one_line_and_nothing_is_written(
    arguments: list[Any], code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "out"
    started = time.monotonic()
    assert simulate("run", study_path(), "--seeds", 1, *arguments, "--out", directory) == code
    error = capsys.readouterr().err.strip().splitlines()
    assert told in error[0]
    assert len(error) <= 2
    assert not directory.exists()
    assert time.monotonic() - started < 60


def test_a_report_that_could_choose_nothing_is_refused_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "half.toml"
    study.write_text(study_path().read_text().replace("quorum = 3", "quorum = 2\nparticipation = 0.5"))
    arguments = ["--data", "heart", "--validation", "0.2", "--report", "validation", "--out", tmp_path / "out"]
    assert simulate("run", study, *SHORT, *arguments) == 2
    assert "--report validation has only the last version to choose from" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    assert simulate("run", study_path(), *SHORT, "--out", tmp_path) == 7
    assert "is not empty and holds no experiment" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_list_and_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("list", "-o", "json") == 0
    listed = {(row["what"], row["name"]) for row in json.loads(capsys.readouterr().out)}
    assert {("method", "fedpac"), ("data", "fashion-mnist"), ("partition", "dirichlet")} <= listed
    target = tmp_path / "digits.toml"
    assert simulate("example", "digits", target) == 0
    assert simulate("example", "digits", target) == 7
    arguments = ["--data", "digits", "--partition", "dirichlet:1", "--sites", 3, "--rounds", 1, "--seeds", 1]
    assert simulate("run", target, *arguments, "--without-baselines") == 0
