"""What to do about a file that cannot be read: of what a simulation has, and no key of a site's settings."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from secureproto.cli.root import run
from secureproto.data import arrays, csvfile, gathering, holdout, images, npy, source, tabular
from secureproto.errors import Misconfigured
from secureproto.simulation.data import hints
from secureproto.simulation.data.catalogue import read
from secureproto.simulation.data.reading import SourceOptions
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from support.study_toml import dumps, image_table, tabular_table

TABLE, IMAGES = load(dumps(tabular_table())), load(dumps(image_table()))
HEADER, ROW = "age,dose,rate,sex,pain,ecg,out", "50,1.0,120,m,2,1,0"
OF_A_SITE = re.compile(r"\bdata\.(path|delimiter|columns|kind)\b|hold_out|set its name")


def hint(path: Path, study: StudyFile = TABLE, **options: str) -> str:
    with pytest.raises(Misconfigured) as caught:
        read([str(path)], study, options=SourceOptions(**options), root=None)
    assert not OF_A_SITE.search(caught.value.hint)
    return caught.value.hint


def table(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("sign", "given", "option"),
    [
        (";", ",", "--delimiter ';'"),
        ("\t", ",", r"--delimiter $'\t'"),
        ("|", ",", "--delimiter '|'"),
        (",", ";", "','"),
    ],
)
def test_the_delimiter_is_an_option(tmp_path: Path, sign: str, given: str, option: str) -> None:
    path = table(tmp_path / "a.csv", HEADER.replace(",", sign), ROW.replace(",", sign))
    assert hint(path, delimiter=given).endswith(option)


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", HEADER.replace("age", "years"), ROW)
    assert hint(path).startswith("rename the column in the file")
    path = table(tmp_path / "b.csv", HEADER, ROW)
    assert hint(path, site_column="Centre") == "check --site-column; names are case-sensitive"
    assert hint(path, split_column="part") == "check --split-column; names are case-sensitive"
    assert hint(path, site_column="x", split_column="y").startswith("check --site-column and --split-column;")


def test_a_path_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("none.csv", "none.npz"):
        assert hint(tmp_path / name).startswith("check the path given to --data")


def test_arrays_that_are_not_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 8, 6), np.uint8), label=np.zeros(1, np.int64))
    assert hint(tmp_path / "a.npz", IMAGES) == "name the arrays x and y: numpy.savez(path, x=..., y=...)"
    np.savez(tmp_path / "b.npz", x=np.zeros((1, 8, 6), np.uint8), y=np.zeros(1, np.int64))
    assert hint(tmp_path / "b.npz", IMAGES, site_column="who").startswith("check --site-column")
    assert hint(tmp_path / "b.npz", IMAGES, split_column="part").startswith("check --split-column")


def test_data_of_another_kind_than_the_study(tmp_path: Path) -> None:
    assert hint(table(tmp_path / "a.csv", HEADER, ROW), IMAGES).startswith("give --data image folders")
    (tmp_path / "pictures" / "no").mkdir(parents=True)
    Image.new("L", (6, 8)).save(tmp_path / "pictures" / "no" / "0.png")
    assert hint(tmp_path / "pictures").startswith("give --data .csv or .npz files")


def test_no_record_to_train_on(tmp_path: Path) -> None:
    assert "--split-column" in hint(table(tmp_path / "a.csv", HEADER, "NA" + ROW[2:]))


def test_other_hints_stay(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe")
    assert hint(tmp_path / "a.csv") == "export the file as UTF-8"


def test_every_hint_of_the_sources_that_names_a_site_s_key_is_known_here() -> None:
    modules = (arrays, csvfile, gathering, holdout, images, npy, source, tabular)
    found = {
        text
        for module in modules
        for text in re.findall(r'hint="([^"]+)"', inspect.getsource(module))
        if OF_A_SITE.search(text)
    }
    assert found == set(hints._HINTS)


def test_one_file_without_sites_is_told_how_to_have_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path / "all.csv", HEADER, *[ROW] * 4)
    (tmp_path / "study.toml").write_bytes(dumps(tabular_table()))
    assert run(["simulate", "run", str(tmp_path / "study.toml"), "--data", str(tmp_path / "all.csv")]) == 2
    line, told = capsys.readouterr().err.splitlines()
    assert "partition natural: these data have no sites of their own" in line
    for way in ("--partition iid", "--site-column", "several --data"):
        assert way in told
