"""A hospital asks before it joins: a model that a real federation published, the hospital's own file, no network."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from secureproto.cli.root import run
from secureproto.simulation.heart.hospitals import write_example
from secureproto_server import studying
from support.federation import Federation, federation
from support.site_process import ClientSite, ended

pytestmark = pytest.mark.system

SETTINGS = """
[data]
kind = "csv"
path = "patients.csv"
split_column = "split"

[studies.heart]
accept = true
"""
ROUNDS = 3
MEMBERS = ("hungary", "long-beach")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the newcomer has: study file, exported model, own records; and what a member has."""
    directory = tmp_path_factory.mktemp("benefit")
    write_example(directory / "files")
    study = directory / "files" / "study.toml"
    text = study.read_text().replace("total = 30", f"total = {ROUNDS}").replace("quorum = 3", "quorum = 2")
    study.write_text(text)
    with federation(directory / "federation") as fed:
        played(fed, directory / "files")
    return directory / "files"


def played(fed: Federation, files: Path) -> None:
    """Two hospitals, all rounds, and the export of the last version."""
    sites = [ClientSite(fed, name) for name in MEMBERS]
    for site in sites:
        site.prepare(SETTINGS, (files / f"{site.name}.csv").read_text())
        site.enrol()
    studying.send(fed.desk, studying.prepare(fed.desk, files / "study.toml", allowed_factories=()))
    processes = [site.popen("client", "run", str(site.root), "--until-complete") for site in sites]
    fed.desk.post("studies/heart/rounds", {"rounds": ROUNDS}, meaning="open rounds")
    for process in processes:
        done = ended(process, 120)
        assert done.code == 0, done.err
    studying.export(fed.desk, "heart", None, files / "shared.safetensors")
    member = sites[0]
    made = member.run("client", "model", "export", str(ROUNDS), "--out", str(files / "member.safetensors"),
                      "--site-dir", str(member.root))  # fmt: skip
    assert made.code == 0, made.err
    member.root.rename(files / "member")


@pytest.fixture(autouse=True)
def offline(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket can be made."""

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", forbidden)


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert run(["simulate", "benefit", *map(str, arguments), "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("model", ["shared.safetensors", "member.safetensors"])
def test_a_hospital_that_has_not_joined(model: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = asked(capsys, files / "study.toml", "--model", files / model, "--data", files / "cleveland.csv",
                  "--split-column", "split")  # fmt: skip
    assert (shown["training_rows"], shown["held_out_rows"]) == (199, 104)
    models = {each["model"]: each for each in shown["models"]}
    assert next(iter(models)) == "own data only"
    assert list(models)[-2:] == ["after local training", "as a member would choose"]
    assert ("with a head trained here" in models) is (model == "shared.safetensors")
    for name, each in models.items():
        for measure, scored in each["scores"].items():
            assert 0 <= scored["low"] <= scored["value"] <= scored["high"] <= 1
            if name != "own data only":
                own = models["own data only"]["scores"][measure]["value"]
                assert each["against_own_data_only"][measure]["value"] == pytest.approx(scored["value"] - own)
    assert shown["verdict"].startswith(("Joining is", "Whether joining is better cannot be told from 104 held-out"))


def test_a_member(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = asked(capsys, "--site-dir", files / "member")
    names = [each["model"] for each in shown["models"]]
    assert names[:3] == ["own data only", "as received", "after local training"]
    assert names[3].startswith(f"in use: {ROUNDS}")
    assert shown["held_out_rows"] == 89
    assert run(["client", "status", str(files / "member"), "-o", "json"]) == 0
    study = json.loads(capsys.readouterr().out)["studies"][0]
    assert names[3] == f"in use: {study['in_use']}" == f"in use: {study['chosen']['model']}"
    kept = study["scores"][f"{ROUNDS}-local"]  # what the site measured itself
    assert shown["models"][2]["scores"]["accuracy"]["value"] == kept["accuracy"]


def test_another_study_file_is_refused(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "study.toml"
    other.write_text((files / "study.toml").read_text().replace("max = 80", "max = 90"))
    arguments = [str(other), "--model", str(files / "member.safetensors"), "--data", str(files / "cleveland.csv")]
    assert run(["simulate", "benefit", *arguments, "--split-column", "split"]) == 2
    assert "was made with another study file of heart" in capsys.readouterr().err
