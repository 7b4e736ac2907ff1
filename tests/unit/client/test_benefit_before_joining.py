"""Would a site be better off alone, asked with files before it has joined; wrong input in one line each."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from secureproto.cli.root import run
from secureproto.errors import Misconfigured
from secureproto.study.file import digest
from secureproto_client import benefit_sources
from support.asking import Arrays, forbidden, published
from support.site_peer import study_bytes
from support.site_rig import RECORDS

Ask = Callable[..., tuple[int, str, str]]
MODELS = ["own data only", "as received", "after local training", "as a member would choose"]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs the command on files as a newcomer has them; `arguments` come last and win."""
    from secureproto.study.file import load

    study = load(study_bytes())
    shared, head = published(study)
    (tmp_path / "study.toml").write_bytes(study_bytes())
    (tmp_path / "patients.csv").write_text(RECORDS)
    said = {"study": study.name, "model": "7", "study_digest": digest(study_bytes())}
    save_file({**shared, **head}, tmp_path / "m.safetensors", said)
    save_file(shared, tmp_path / "shared.safetensors")

    def command(*arguments: str, data: str = "patients.csv", model: str = "m.safetensors") -> tuple[int, str, str]:
        files = ["--model", str(tmp_path / model), "--data", str(tmp_path / data)]
        code = run(["simulate", "benefit", str(tmp_path / "study.toml"), *files, *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return command


def test_a_hospital_that_has_not_joined(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", forbidden)
    code, out, err = ask("--id-column", "id", "--hold-out", "0.4", "-o", "json")
    assert code == 0, err
    shown = json.loads(out)
    assert any(note.startswith("the file has a head, so a member exported it") for note in shown["notes"])
    assert [each["model"] for each in shown["models"]] == MODELS
    assert shown["federation_model"].endswith("m.safetensors")
    assert ask("--id-column", "id", "--hold-out", "0.4", "-o", "json")[1] == out
    code, out, err = ask("--id-column", "id", "--hold-out", "0.4", "-o", "jsonl", model="shared.safetensors")
    assert code == 0
    rows = [json.loads(row) for row in out.splitlines()]
    assert [row["model"] for row in rows[::3]][1:3] == ["as received, nearest prototype", "with a head trained here"]
    assert "note: the file has no head" in err
    assert "the file has a head" not in err
    assert "does not say of which study it is" in err


def test_the_data_table_of_a_toml_file(ask: Ask, tmp_path: Path) -> None:
    table = 'kind = "csv"\npath = "patients.csv"\nid_column = "id"\nhold_out = 0.4\n'
    (tmp_path / "client.toml").write_text("[data]\n" + table)
    one, other = ask(data="client.toml"), ask("--id-column", "id", "--hold-out", "0.4")
    assert one[:2] == other[:2]
    assert one[0] == 0


@pytest.mark.parametrize(
    ("arguments", "files", "line"),
    [
        ([], {}, "patients.csv: hold_out needs id_column or split_column"),
        (["--hold-out", "0"], {}, "small: no row is held out: nothing can be compared"),
        (["--id-column", "nobody"], {}, "patients.csv: line 1: no column nobody"),
        (["--split-column", "sex"], {}, 'row 1 (line 2): the split is none of "train", "test" and empty'),
        ([], {"data": "no.csv"}, "no.csv: hold_out needs"),
        (["--id-column", "id"], {"data": "no.csv"}, "no.csv: cannot be read"),
        ([], {"data": "no.toml"}, "no.toml: cannot be read"),
        ([], {"data": "records.xlsx"}, "records.xlsx: is neither .csv nor .toml"),
        ([], {"data": "study.toml"}, "study.toml: data: "),
        (["--id-column", "id"], {"data": "study.toml"}, "options for columns are for a CSV file"),
        (["--id-column", "id"], {"model": "no.safetensors"}, "no.safetensors: cannot be read"),
        (["--id-column", "id"], {"model": "patients.csv"}, "patients.csv: is not a safetensors file"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(ask: Ask, arguments: list[str], files: dict[str, str], line: str) -> None:
    code, out, err = ask(*arguments, **files)
    assert (code, out) == (2, "")
    assert line in err.splitlines()[0]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("said", "change", "line"),
    [
        ({"study": "other"}, {}, "m.safetensors: is a model of study 'other', the study file is of small"),
        ({"study_digest": "0" * 64}, {}, "m.safetensors: was made with another study file of small"),
        ({}, {"head.weight": np.zeros((2, 9), np.float32)}, "tensor weight has shape (2, 9) in place of (2, 4)"),
        ({}, {"extra": np.zeros(2)}, "m.safetensors: tensor extra is none of a model"),
        ({}, {"extractor.9.weight": np.zeros(2)}, "m.safetensors: model does not fit the study: tensor 9.weight"),
        ({}, {"prototypes": np.zeros((3, 4))}, "the global prototypes are missing, or of another shape"),
        ({}, {"prototypes": None}, "m.safetensors: holds no global prototypes"),
        ({}, {"head.bias": np.array([0, np.nan], np.float32)}, "tensor head.bias: a number is not finite"),
    ],
)
def test_a_model_of_something_else(ask: Ask, tmp_path: Path, said: dict[str, str], change: Arrays, line: str) -> None:
    from secureproto.study.file import load

    shared, head = published(load(study_bytes()))
    tensors = {name: array for name, array in {**shared, **head, **change}.items() if array is not None}
    save_file(tensors, tmp_path / "m.safetensors", said)
    code, _, err = ask("--id-column", "id")
    assert code == 2
    assert line in err.splitlines()[0]


def test_a_number_that_is_none_is_named_by_place(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "patients.csv").write_text(RECORDS.replace("p3,50", "p3,nan"))
    code, _, err = ask("--id-column", "id")
    assert code == 2
    assert "patients.csv: row 3 (line 4): column age: not a number" in err.splitlines()[0]


def test_other_hints_stay_and_a_path_is_the_one_that_was_given(ask: Ask, tmp_path: Path) -> None:
    code, _, err = ask("--id-column", "id", data="absent.csv")
    line, hint = err.splitlines()
    assert (code, "absent.csv: cannot be read" in line) == (2, True)
    assert hint == "hint: check the path given to --data and rights"
    (tmp_path / "patients.csv").write_text(RECORDS.replace("p3,50", "p3,nan"))
    _, _, err = ask("--id-column", "id")
    assert "data.bad_record" in err.splitlines()[1]  # the study's key, and not one of a [data] table
    assert "TOML" not in err


def test_a_hint_about_the_study_is_not_taken_for_one_about_the_data(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Misconfigured("model cnn: needs images", hint="choose model.name mlp, or data.kind image")

    monkeypatch.setattr(benefit_sources, "_demand_fit", refuse)
    code, _, err = ask("--id-column", "id")
    assert (code, err.splitlines()[1]) == (2, "hint: choose model.name mlp, or data.kind image")


@pytest.mark.parametrize("kind", ["csv", "toml"])
def test_what_to_do_about_a_csv_file_can_be_done(ask: Ask, tmp_path: Path, kind: str) -> None:
    """A hospital that has not joined has no site's settings to change."""
    (tmp_path / "patients.csv").write_text(RECORDS.replace(",", ";"))
    if kind == "toml":
        (tmp_path / "data.toml").write_text('[data]\nkind = "csv"\npath = "patients.csv"\nid_column = "id"\n')
        code, _, err = ask("--data", str(tmp_path / "data.toml"))
    else:
        code, _, err = ask("--id-column", "id")
    line, hint = err.splitlines()
    assert (code, "patients.csv: " in line) == (2, True)
    assert "set data.delimiter" in hint
    assert ("in a TOML file with a [data] table" in hint) is (kind == "csv")


def test_what_does_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = str(tmp_path / "study.toml")
    for arguments in ([study], [study, "--model", "m"], ["--model", "m"], ["--id-column", "id"]):
        assert run(["simulate", "benefit", *arguments]) == 2
        assert "STUDY.toml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (["--data", "d.csv"], ["--model is missing: an exported model"]),
        (["--model", "m"], ["--data is missing: the site's records"]),
        ([], ["--model is missing: an exported model", "--data is missing: the site's records"]),
        (["--model", "m", "--data", "d.csv", "--study", "x"], ["--study is for an enrolled site"]),
    ],
)
def test_what_is_missing_beside_a_study_is_named(
    given: list[str], missing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "benefit", "study.toml", *given]) == 2
    line, _ = capsys.readouterr().err.splitlines()
    assert [what for what in missing if what in line] == missing
    assert line.count(" is missing: ") == sum(" is missing: " in what for what in missing)


def test_without_arguments_it_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SECUREPROTO_SITE", raising=False)
    assert run(["simulate", "benefit"]) == 2
    line, hint = capsys.readouterr().err.splitlines()
    for needed in ("--site-dir DIR", "STUDY.toml", "--model", "--data"):
        assert needed in line
    assert "simulate benefit --help" in hint
