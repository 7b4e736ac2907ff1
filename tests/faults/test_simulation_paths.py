"""Paths of the wrong kind, given to any option of `simulate` or put into its directory: one line, a code of a family,
never a wait.
"""

import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from secureproto.cli.root import run
from secureproto.simulation.heart.hospitals import data_path, study_path
from support.unprivileged import open_to_all, run_as_nobody

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]  # who opens a pipe waits for ever

SHORT = ["--rounds", "1", "--seeds", "1", "--methods", "majority", "--without-baselines", "--no-models"]
FAMILIES = {2, 3, 6, 7}
Arguments = Callable[[object], list[object]]


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket may not be long
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


KINDS: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "file": lambda path: path.write_bytes(b"\x00\x01 is no text, and nothing else"),
    "empty file": Path.touch,
    "pipe": os.mkfifo,
    "socket": listening,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "nothing": lambda path: None,
    "below a file": lambda path: None,
    "name too long": lambda path: None,
}


def place(kind: str, folder: Path, suffix: str) -> Path:
    """A path of that kind."""
    if kind == "below a file":
        (folder / "plain").touch()
        return folder / "plain" / f"a{suffix}"
    path = folder / (300 * "a" + suffix if kind == "name too long" else f"a{suffix}")
    KINDS[kind](path)
    return path


def options(made: Path) -> dict[str, tuple[str, Arguments]]:
    """Every option that takes a path, as (suffix, the command)."""
    run_, study, heart = ["simulate", "run"], study_path(), ["--data", data_path()]
    root = ["--data-root"]
    tune = ["simulate", "tune", study, "--rounds", 1, "--seeds", 1, "--methods", "majority", "--validation", "0.2"]
    model, ask = made.parent / "model.safetensors", ["simulate", "benefit"]
    return {
        "run STUDY": (".toml", lambda path: [*run_, path, *heart, *SHORT]),
        "run --data csv": (".csv", lambda path: [*run_, study, "--data", path, *SHORT]),
        "run --data npz": (".npz", lambda path: [*run_, study, "--data", path, *SHORT]),
        "run --data folder": ("", lambda path: [*run_, study, "--data", path, *SHORT]),
        "run two --data": (".csv", lambda path: [*run_, study, *heart, "--data", path, *SHORT]),
        "run --data-root cifar10": ("", lambda path: [*run_, study, "--data", "cifar10", *root, path, *SHORT]),
        "run --data-root emnist": ("", lambda path: [*run_, study, "--data", "emnist", *root, path, *SHORT]),
        "run --partition": (".json", lambda path: [*run_, study, "--partition", path, *SHORT]),
        "run --out": ("", lambda path: [*run_, study, *SHORT, "--out", path]),
        "tune STUDY": (".toml", lambda path: ["simulate", "tune", path, *tune[3:], "--out", made.parent / "t"]),
        "tune --out": ("", lambda path: [*tune, "--out", path]),
        "compare DIR": ("", lambda path: ["simulate", "compare", path]),
        "compare --out": (".html", lambda path: ["simulate", "compare", made, "--out", path]),
        "example TARGET": (".toml", lambda path: ["simulate", "example", "heart", path]),
        "benefit STUDY": (".toml", lambda path: [*ask, path, "--model", model, "--data", data_path()]),
        "benefit --model": (".safetensors", lambda path: [*ask, study, "--model", path, "--data", data_path(),
                                                          "--split-column", "split"]),
        "benefit --data csv": (".csv", lambda path: [*ask, study, "--model", model, "--data", path,
                                                     "--split-column", "split"]),
        "benefit --data toml": (".toml", lambda path: [*ask, study, "--model", model, "--data", path]),
        "benefit --site-dir": ("", lambda path: [*ask, "--site-dir", path]),
    }  # fmt: skip


# what is right there, and so no fault
RIGHT = {
    ("compare --out", "file"), ("compare --out", "empty file"), ("compare --out", "nothing"),
    ("compare --out", "link to nothing"), ("example TARGET", "nothing"),
    ("run --out", "nothing"), ("run --out", "folder"), ("tune --out", "nothing"), ("tune --out", "folder"),
}  # fmt: skip
NAMES = list(options(Path("/made")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished experiment, beside a model file."""
    directory = tmp_path_factory.mktemp("made") / "heart"
    arguments = ["simulate", "run", study_path(), *SHORT, "--methods", "local", "--out", directory]
    assert run([str(each) for each in [*arguments, "--models"]]) == 0
    shutil.copy(directory / "models/local/0/shared.safetensors", directory.parent / "model.safetensors")
    return directory


def told(arguments: Sequence[object], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = run([str(each) for each in arguments])
    return code, capsys.readouterr().err


def demand_a_line(code: int, err: str) -> None:
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code in FAMILIES, err
    assert len(lines) == 1, err
    assert "unexpected" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_path_of_the_wrong_kind(
    name: str, kind: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suffix, arguments = options(made)[name]
    code, err = told(arguments(place(kind, tmp_path, suffix)), capsys)
    if (name, kind) in RIGHT:
        assert code == 0, err
    else:
        demand_a_line(code, err)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("--out", "TARGET"))])
def test_a_full_disk(name: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.stat("/dev/full")  # noqa: PTH116  # no path of ours
    code, err = told(options(made)[name][1]("/dev/full"), capsys)
    demand_a_line(code, err)
    if name == "compare --out":
        assert code == 3
        assert "No space left on device" in err
    assert os.stat("/dev/full").st_rdev == before.st_rdev  # noqa: PTH116


def test_a_page_can_go_to_a_device(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(["simulate", "compare", made, "--out", "/dev/null"], capsys)[0] == 0
    assert Path("/dev/null").is_char_device()


def test_no_room_for_what_is_kept_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    code, err = told(["simulate", "run", study_path(), *SHORT], capsys)
    demand_a_line(code, err)
    assert "--out" in err


OWNED = (
    "experiment.json", "study.toml", "partition.json", "partition.svg", "runs", "runs/local", "runs/local/0.sqlite",
)  # fmt: skip
WRITTEN = ("runs/local/0.lock", "models", "models/local", "results.csv", "rounds.csv", "results.json", "report.html")


def replaced(path: Path, kind: str) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    KINDS[kind](path)


IN_THE_WAY = [
    *((name, kind) for name in OWNED for kind in ("folder", "file", "pipe", "socket", "link to nothing")),
    *((name, kind) for name in WRITTEN for kind in ("folder", "pipe", "link to itself")),
]


@pytest.mark.parametrize(("name", "kind"), IN_THE_WAY)
def test_in_an_experiment_s_directory(
    name: str, kind: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever stands there: the comparison is as it was, or refused; and so is going on."""
    copy = Path(shutil.copytree(made, tmp_path / "heart"))
    replaced(copy / name, kind)
    going_on = ["simulate", "run", study_path(), *SHORT, "--methods", "local", "--models", "--out", copy]
    for arguments in (["simulate", "compare", copy], going_on):
        code, err = told(arguments, capsys)
        if code:
            demand_a_line(code, err)
            assert str(copy) in err or "nothing was run yet" in err
        else:
            assert name not in ("experiment.json", "study.toml") or arguments[1] == "run"


@pytest.fixture
def shared() -> Iterator[Path]:
    with open_to_all() as directory:
        yield directory
        for path in [directory, *directory.rglob("*")]:
            path.chmod(0o755)


def test_what_may_not_be_read(made: Path, shared: Path) -> None:
    """A file, and a folder, and what lies in one that may be listed and not entered, or entered and not listed."""
    commands: list[list[object]] = []
    for number, (suffix, arguments) in enumerate(options(made).values()):
        below = shared / str(number)
        for mode in (0o000, 0o444, 0o111):
            folder = below / oct(mode) / f"a{suffix}"
            (folder / "inner").mkdir(parents=True)
            (folder / "inner/file.png").touch()
            commands += [arguments(folder), arguments(folder / "inner"), arguments(folder / "inner" / f"a{suffix}")]
            folder.chmod(mode)
        file = below / f"b{suffix}"
        file.write_text("secret")
        file.chmod(0o000)
        commands.append(arguments(file))
    experiments = []
    for name in OWNED:
        copy = Path(shutil.copytree(made, shared / "of" / name.replace("/", "-")))
        (copy / name).chmod(0o000)
        experiments.append(copy)
        commands += [["simulate", "compare", copy], ["simulate", "run", study_path(), *SHORT, "--out", copy]]
    for arguments_, (code, _, err) in zip(commands, run_as_nobody(commands, warm=warming(made)), strict=True):
        assert "Traceback" not in err, (arguments_, err)
        assert "unexpected" not in err, (arguments_, err)
        assert code in FAMILIES, (arguments_, code, err)


def warming(made: Path) -> list[list[object]]:
    """Commands that load what those of the test need."""
    study = study_path()
    return [
        ["simulate", "compare", made],
        ["simulate", "run", study, *SHORT],
        ["simulate", "run", study, "--data", "cifar10", "--data-root", made, *SHORT],
        ["simulate", "run", study, "--data", made, *SHORT],
        ["simulate", "run", study, "--data", "a.npz", *SHORT],
        ["simulate", "benefit", study, "--model", made.parent / "model.safetensors", "--data", data_path(),
         "--split-column", "split"],
        ["simulate", "benefit", "--site-dir", made],
    ]  # fmt: skip
