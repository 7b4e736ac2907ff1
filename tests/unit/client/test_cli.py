"""The site's verbs through the program itself: what goes to stdout, to stderr, and the exit code."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from secureproto.cli.root import run
from secureproto_client.stopping import only_client
from support.site_peer import STUDY, Peer
from support.site_rig import RECORDS, Rig, enrolled, with_records


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = enrolled(tmp_path / "site", Peer())
    agent = with_records(rig, RECORDS)
    agent.step(wait=0)
    number = rig.peer.open()
    agent.step(wait=0)
    rig.peer.complete(number, final=True)
    agent.step(wait=0)
    rig.kill()
    yield rig
    rig.kill()


def test_status_as_json_and_as_a_table(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", "status", str(rig.root), "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    study = shown["studies"][0]
    assert (study["study"], study["version"], study["in_use"], study["rounds"]) == (STUDY, 1, "1", {"done": 1})
    assert set(study["scores"]) == {"0", "1", "1-local"}
    assert (study["chosen"]["model"], study["chosen"]["version"], study["chosen"]["classes"]) == ("1", 1, 2)
    assert set(study["chosen"]["log_loss"]) == {"mixed", "blend", "own", "local", "midway", "longer"}
    assert run(["client", "status", "--site-dir", str(rig.root)]) == 0
    assert "studies.small.in_use" in capsys.readouterr().out


def test_models_are_listed_chosen_and_exported(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--site-dir", str(rig.root)]
    assert run(["client", "model", "list", *here, "-o", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["model"], row["private"], row["in_use"]) for row in rows] == [
        ("0", False, False), ("1", False, True), ("1-local", True, False),
    ]  # fmt: skip
    assert run(["client", "model", "use", "0", *here]) == 0
    assert run(["client", "model", "rollback", *here]) == 0
    assert "in use: 1\n" in capsys.readouterr().err
    assert run(["client", "model", "use", "latest", *here]) == 0
    assert run(["client", "model", "use", "9", *here]) == 7
    target = rig.root / "model.safetensors"
    assert run(["client", "model", "export", "1-local", "--out", str(target), *here]) == 0
    assert "PRIVATE" in capsys.readouterr().err
    assert "head.weight" in load_file(target)
    assert b'"private":"true"' in target.read_bytes()
    assert run(["client", "model", "export", "1", "--out", str(target), *here]) == 7


def test_predictions_go_to_stdout_and_talk_to_stderr(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    bad = rig.root / "new.csv"
    bad.write_text("id,age,dose,rate,sex,pain,ecg\nq1,30,0.5,60,f,1,0\nq2,,0.5,60,f,1,0\n")
    code = run(["client", "predict", str(rig.root), "--input", str(bad), "-o", "json"])
    shown = capsys.readouterr()
    assert code == 0
    assert [row["id"] for row in json.loads(shown.out)["predictions"]] == ["q1"]
    assert "no prediction: " in shown.err
    assert "1 classified with small model 1, 1 left out" in shown.err


def test_what_is_no_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", "status", str(tmp_path)]) == 2
    assert run(["client", "run", str(tmp_path)]) == 2
    assert run(["client", "stop", str(tmp_path)]) == 7
    assert run(["client", "run", str(tmp_path), "--once", "--rehearse"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "is not a site's directory" in shown.err


def test_a_running_client_is_shown(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    with only_client(rig.paths):
        assert run(["client", "status", str(rig.root), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["running"] is not None
