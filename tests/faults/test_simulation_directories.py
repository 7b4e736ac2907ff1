"""Directories of experiments that may only be read, and that somebody changed by hand."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secureproto.cli.root import run
from secureproto.simulation.definition import Definition, encode
from secureproto.simulation.heart.hospitals import data_path, study_path
from support.unprivileged import open_to_all, run_as_nobody

pytestmark = pytest.mark.system

SHORT = ["--rounds", "2", "--seeds", "1", "--methods", "local,fedavg", "--without-baselines", "--no-models"]


def simulate(*arguments: object) -> int:
    return run(["simulate", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished experiment; the tests take copies of it."""
    directory = tmp_path_factory.mktemp("made") / "heart"
    assert simulate("run", study_path(), *SHORT, "--out", directory) == 0
    return directory


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "heart"))


def state(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below with its time of change."""
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


# ---- only read


def test_a_finished_run_is_one_file(made: Path) -> None:
    assert sorted(path.name for path in (made / "runs").rglob("*") if path.is_file()) == ["0.sqlite"] * 2


def as_it_is(path: Path) -> None:
    """A finished run."""


def with_a_log(path: Path) -> None:
    """One whose process was killed: its last round lies in the log."""
    database = sqlite3.connect(path)
    database.execute("pragma journal_mode = wal")
    database.execute("insert into arrays values ('another', x'00')")
    kept = path.with_name("kept")
    for ending in ("", "-wal", "-shm"):
        shutil.copy(f"{path}{ending}", f"{kept}{ending}")
    database.close()
    for ending in ("", "-wal", "-shm"):
        Path(f"{kept}{ending}").rename(f"{path}{ending}")


def with_a_log_alone(path: Path) -> None:
    with_a_log(path)
    path.with_name(path.name + "-shm").unlink()


def of_before(path: Path) -> None:
    """One that an older program left in the mode of the log."""
    database = sqlite3.connect(path)
    database.execute("pragma journal_mode = wal")
    database.close()


LEFT: list[Callable[[Path], None]] = [as_it_is, with_a_log, with_a_log_alone, of_before]


@pytest.fixture
def shared() -> Iterator[Path]:
    with open_to_all() as directory:
        yield directory


def test_what_may_only_be_read_is_compared(made: Path, shared: Path) -> None:
    names = [left.__name__ for left in LEFT]
    for left in LEFT:
        left(Path(shutil.copytree(made, shared / left.__name__)) / "runs/fedavg/0.sqlite")
    for path in [shared, *shared.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = state(shared)
    told = run_as_nobody([["simulate", "compare", shared / name, "-o", "json"] for name in names],
                         warm=[["simulate", "compare", made, "-o", "json"]])  # fmt: skip
    try:
        assert [each.code for each in told] == [0] * len(names), told
        assert state(shared) == before
        labels = [{method["label"] for method in json.loads(each.out)["methods"]} for each in told]
        assert labels == [{"local", "fedavg", "fedavg-ft"}] * len(names)
    finally:
        for path in [shared, *shared.rglob("*")]:
            path.chmod(0o755)


@pytest.mark.parametrize("left", LEFT)
def test_comparing_writes_nothing_into_the_directory(copy: Path, left: Callable[[Path], None]) -> None:
    left(copy / "runs/fedavg/0.sqlite")
    before = state(copy)
    assert simulate("compare", copy) == 0
    assert state(copy) == before


# ---- changed by hand


def edited(key: str, value: object) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        path = directory / "experiment.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))

    edit.__name__ = f"{key} is {value}"[:40]
    return edit


def edited_with_digest(key: str, value: object) -> Callable[[Path], None]:
    """By who knows how the digest is made."""

    def edit(directory: Path) -> None:
        path = directory / "experiment.json"
        content = json.loads(path.read_text())
        del content["digest"]
        path.write_bytes(encode(Definition.model_validate({**content, key: value})))

    edit.__name__ = f"{key} and the digest"
    return edit


def without_digest(key: str, value: object) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        edited(key, value)(directory)
        path = directory / "experiment.json"
        content = json.loads(path.read_text())
        del content["digest"]
        path.write_text(json.dumps(content))

    edit.__name__ = f"{key}, and no digest"
    return edit


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        path = directory / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    edit.__name__ = name
    return edit


def statement(text: str) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        database = sqlite3.connect(directory / "runs/fedavg/0.sqlite", isolation_level=None)
        database.execute(text)
        database.close()

    edit.__name__ = text
    return edit


def renamed(old: str, new: str) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        (directory / "runs" / new).parent.mkdir(exist_ok=True)
        (directory / "runs" / old).rename(directory / "runs" / new)

    edit.__name__ = f"{old} to {new}"
    return edit


OTHER: dict[str, object] = {
    "study": "other",
    "study_digest": "0" * 64,
    "data": ["digits"],
    "pool_digest": "0" * 64,
    "partition": "iid",
    "partition_digest": "0" * 64,
    "split": "stratified",
    "rounds": 30,
    "evaluate_every": 2,
    "choice": "no",
    "redrawn_ratio": 0.25,
}
EDITS: list[Callable[[Path], None]] = [
    *(edit(key, value) for edit in (edited, edited_with_digest, without_digest) for key, value in OTHER.items()),
    edited("format", 2),
    edited("methods", ["ditto"]),
    edited("seeds", 5),
    replaced("study.toml", "learning_rate = ", "learning_rate = 1"),
    replaced("study.toml", "total = 30", "total = 31"),
    replaced("partition.json", '"scheme":"natural"', '"scheme":"iid"'),
    replaced("partition.json", ":[0,", ":["),
    statement("update rounds set record = replace(record, '0.7', '0.9') where number = 2"),
    statement("delete from rounds where number = 2"),
    statement("update facts set value = 'local' where key = 'method'"),
    statement("delete from facts where key = 'experiment'"),
    statement("delete from facts where key = 'complete'"),
    statement("update facts set value = 'x' where key = 'experiment'"),
    statement("delete from facts where key in ('experiment', 'seal', 'format')"),
    renamed("fedavg/0.sqlite", "fedavg/1.sqlite"),
    renamed("fedavg/0.sqlite", "fedavg%3Alearning_rate=0.1/0.sqlite"),
    renamed("fedavg/0.sqlite", "ditto/0.sqlite"),
]


def test_every_key_of_the_description_is_tried() -> None:
    assert {*OTHER, "format"} == set(Definition.model_fields)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_who_changed_an_experiment_by_hand_is_told(
    copy: Path, edit: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    edit(copy)
    capsys.readouterr()
    assert simulate("compare", copy) == 6
    told = capsys.readouterr().err.strip().splitlines()
    assert str(copy) in told[0]
    assert len(told) == 2


@pytest.mark.parametrize(
    "edit",
    [
        edited("rounds", 30),
        edited("partition_digest", "0" * 64),
        edited("methods", ["ditto"]),
        edited("seeds", 5),
        *(
            edit
            for edit in EDITS
            if edit.__name__.endswith((".toml", ".json")) or edit.__name__[:7] in ("update ", "delete ")
        ),
    ],
    ids=lambda edit: edit.__name__,
)
def test_going_on_with_what_was_changed_by_hand_is_refused(
    copy: Path, edit: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    edit(copy)
    before = state(copy)
    capsys.readouterr()
    assert simulate("run", study_path(), *SHORT, "--out", copy) == 6
    line, hint = capsys.readouterr().err.strip().splitlines()[-2:]
    assert line.startswith("error: ")
    assert str(copy) in line
    assert hint.startswith("hint: ")
    assert state(copy) == before


@pytest.mark.parametrize("edit", [edited("format", 2), edited("another_key", 1)], ids=lambda edit: edit.__name__)
def test_a_description_of_another_version_is_not_only_called_damaged(
    copy: Path, edit: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    edit(copy)
    capsys.readouterr()
    assert simulate("compare", copy) == 6
    line, hint = capsys.readouterr().err.strip().splitlines()
    assert "/experiment.json: is no description of an experiment that this version can read: damaged, or of" in line
    assert "the version that wrote it" in hint


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (["--rounds", "5"], "(rounds 2 there, 5 asked for)"),
        (
            ["--evaluate-every", "2", "--no-choice"],
            "(evaluate_every 1 there, 2 asked for; another choice: of 6, longer 10, margin 2, folds 0.2 there, no as",
        ),
        (["--partition", "iid", "--sites", "4"], "(another partition: natural there, iid asked for"),
        (["--repeated"], "redrawn_ratio none there, 0.428571 asked for)"),
        (["--test-share", "0.5", "--split", "stratified"], "(another split: given there, stratified asked for)"),
        (["--data", f"./{'x' * 40}.csv"], "(another data)"),
    ],
)
def test_in_what_an_experiment_differs_is_said(
    copy: Path, tmp_path: Path, other: list[str], told: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if "--data" in other:
        lines = data_path().read_text().splitlines(keepends=True)
        (tmp_path / f"{'x' * 40}.csv").write_text("".join(lines[:-1]))
        other = [*other, "--site-column", "site", "--split-column", "split"]
    capsys.readouterr()
    assert simulate("run", study_path(), *SHORT, *other, "--out", copy) == 7
    line = capsys.readouterr().err.strip().splitlines()[-2]
    assert line.startswith(f"error: {copy}: holds another experiment (")
    assert told in line


def test_it_means_nothing_how_a_file_of_the_same_records_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--site-column", "site", "--split-column", "split", "--methods", "local", "--without-baselines"]
    arguments += ["--rounds", "1", "--seeds", "1", "--out", str(tmp_path / "out")]
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        shutil.copy(data_path(), tmp_path / folder / "patients.csv")
    monkeypatch.chdir(tmp_path / "here")
    assert simulate("run", study_path(), "--data", "patients.csv", *arguments) == 0
    monkeypatch.chdir(tmp_path)
    assert simulate("run", study_path(), "--data", "there/patients.csv", *arguments) == 0
    assert simulate("compare", tmp_path / "out") == 0


def test_where_only_digests_differ_they_are_named(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = copy.with_name("study.toml")
    other.write_text(study_path().read_text() + "\n# another byte\n")
    assert simulate("run", other, *SHORT, "--out", copy) == 7
    assert "holds another experiment (another study_digest)" in capsys.readouterr().err


def test_a_description_changed_with_its_digest_is_refused_by_the_runs(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited_with_digest("rounds", 5)(copy)
    assert simulate("run", study_path(), *SHORT, "--rounds", 5, "--out", copy) == 6
    assert "is the run of another experiment" in capsys.readouterr().err
