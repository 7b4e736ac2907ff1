"""The wheel: typed, with its data and migrations, and usable where nothing but its dependencies is installed."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from secureproto.simulation.data import catalogue
from support.tree import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


def test_it_holds_types_data_and_migrations(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for package in ("secureproto", "secureproto_server", "secureproto_client"):
        assert f"{package}/py.typed" in names
    assert "secureproto/simulation/heart/heart_disease.csv" in names
    for known in catalogue.known():
        study = catalogue.example_study(known.name).relative_to(ROOT).as_posix()
        assert study in names
    assert [name for name in names if name.startswith("secureproto_server/storage/migrations/versions/")]
    assert [name for name in names if name.endswith("licenses/NOTICE")]
    assert not [name for name in names if name.startswith(("tests/", "server/", "client/"))]


def test_it_runs_where_only_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    (site,) = (home / "lib").glob("python*/site-packages")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)],
        check=True,
    )
    # The dependencies of this environment, but not its editable install: a path in a .pth is not itself a site
    # directory, so .pth files within it are not read.
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "dependencies.pth").write_text(ours + "\n")
    run = subprocess.run(
        [
            str(python),
            "-c",
            "import secureproto, secureproto.cli.root as r; print(secureproto.__file__); r.run(['--help'])",
        ],
        cwd=tmp_path,  # not the checkout: `-c` puts the working directory first
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(site) in run.stdout
    assert "federation" in run.stdout
