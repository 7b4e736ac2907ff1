"""The user's own files: sites and parts from columns or from the files, and one line for what does not fit."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from secureproto.data.factory import open_source
from secureproto.data.settings import CsvSettings
from secureproto.data.source import Isolated
from secureproto.errors import Misconfigured
from secureproto.simulation.data.catalogue import read
from secureproto.simulation.data.reading import Reading, SourceOptions
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from support.study_toml import dumps, image_table, put, tabular_table

TABLE, IMAGES = load(dumps(tabular_table())), load(dumps(image_table()))
DROP = load(dumps(put(tabular_table(), "data.bad_record", "drop")))
HEADER = "centre,age,dose,rate,sex,pain,ecg,out,part,remark"
ROWS = [
    "north,50,1.0,120,m,2,1,0,train,a",
    "south,20,0.5,80,f,1,0,1,test,b",
    "north,60,,70,f,3,1,2,test,c",
    "south,75,2.0,60,m,1,0,0,train,d",
]


def csv(path: Path, rows: list[str], name: str = "all.csv") -> str:
    (path / name).write_text("\n".join([HEADER, *rows]) + "\n")
    return str(path / name)


def npz(path: Path, name: str = "all.npz", **arrays: object) -> str:
    np.savez(path / name, **arrays)  # type: ignore[arg-type]  # its stub takes allow_pickle by name first
    return str(path / name)


def folder(path: Path, name: str, **counts: int) -> str:
    for label, count in counts.items():
        (path / name / label).mkdir(parents=True)
        for number in range(count):
            Image.new("L", (6, 8), 51 * number).save(path / name / label / f"{number}.png")
    return str(path / name)


def take(*data: str, study: StudyFile = TABLE, **options: str) -> Reading:
    return read(data, study, options=SourceOptions(**options), root=None)


def refusal(*data: str, study: StudyFile = TABLE, **options: str) -> str:
    with pytest.raises(Misconfigured) as caught:
        take(*data, study=study, **options)
    assert caught.value.message.isprintable()
    return caught.value.message


def test_one_file_without_more_is_one_pool(tmp_path: Path) -> None:
    pool = take(csv(tmp_path, ROWS)).pool
    assert (pool.sites, pool.held_out) == (None, None)
    assert pool.records.y.tolist() == [0, 1, 1, 0]


def test_records_are_those_that_a_site_would_have(tmp_path: Path) -> None:
    path = csv(tmp_path, ROWS)
    settings = CsvSettings(kind="csv", path=Path(path), split_column="part")
    at_site = open_source(settings, key=bytes(32)).load(TABLE)
    found = take(path, split_column="part").pool.records
    assert np.array_equal(found.x, np.concatenate([at_site.train.x, at_site.test.x]))
    assert np.array_equal(found.y, np.concatenate([at_site.train.y, at_site.test.y]))


def test_columns_give_sites_and_parts(tmp_path: Path) -> None:
    rows = [*ROWS, ROWS[0].replace("train", "")]
    reading = take(csv(tmp_path, rows), site_column="centre", split_column="part")
    assert reading.pool.sites is not None
    assert reading.pool.held_out is not None
    assert reading.pool.sites.tolist() == ["north", "south", "south", "north"]
    assert reading.pool.held_out.tolist() == [False, False, True, True]
    assert reading.left_out == {Isolated.NO_SPLIT: 1}


def test_several_files_are_sites_called_by_their_names(tmp_path: Path) -> None:
    paths = [csv(tmp_path, ROWS[:1], "b.csv"), csv(tmp_path, ROWS[1:], "a.csv")]
    pool = take(*paths).pool
    assert pool.sites is not None
    assert pool.sites.tolist() == ["b", "a", "a", "a"]
    assert pool.held_out is None
    assert np.array_equal(pool.records.x, take(csv(tmp_path, ROWS)).pool.records.x)


def test_several_files_with_parts(tmp_path: Path) -> None:
    paths = [csv(tmp_path, ROWS[:2], "b.csv"), csv(tmp_path, ROWS[2:], "a.csv")]
    pool = take(*paths, split_column="part").pool
    assert pool.sites is not None
    assert pool.held_out is not None
    assert (pool.sites.tolist(), pool.held_out.tolist()) == (["b", "b", "a", "a"], [False, True, False, True])


def test_what_is_not_in_the_pool_is_counted_and_placed(tmp_path: Path) -> None:
    outside, missing, bad = (ROWS[0].replace("50", age) for age in ("95", "NA", "nan"))
    paths = [csv(tmp_path, [ROWS[0], missing, outside], "b.csv"), csv(tmp_path, [bad, ROWS[1]], "a.csv")]
    reading = take(*paths, study=DROP)
    assert len(reading.pool.records) == 3
    assert reading.left_out == {Isolated.MISSING: 1, Isolated.BAD: 1}
    assert reading.clamped == {"age": 1}
    assert reading.notes[0] == "b.csv: row 2 (line 3): column age: missing"
    assert reading.notes[1].startswith("a.csv: row 1 (line 2): column age: not a number")


def test_a_number_that_is_none_stops_and_is_placed(tmp_path: Path) -> None:
    path = csv(tmp_path, [ROWS[0], ROWS[1].replace("0.5", "NaN")])
    assert refusal(path).startswith(f"{path}: row 2 (line 3): column dose: not a number")


def test_a_row_without_a_site(tmp_path: Path) -> None:
    path = csv(tmp_path, [*ROWS, ROWS[0].removeprefix("north")])
    assert refusal(path, site_column="centre") == f"{path}: row 5 (line 6): column centre: missing"
    reading = take(path, study=DROP, site_column="centre")
    assert (len(reading.pool.records), reading.left_out) == (4, {Isolated.BAD: 1})
    # what the study calls missing is no hospital either
    unknown = csv(tmp_path, [*ROWS, ROWS[0].replace("north", "NA", 1)], "unknown.csv")
    reading = take(unknown, study=DROP, site_column="centre")
    assert (len(reading.pool.records), reading.left_out) == (4, {Isolated.BAD: 1})
    x, site = np.zeros((2, 12), np.float32), np.array(["north", "NA"])
    reading = take(npz(tmp_path, x=x, y=np.zeros(2, np.int64), site=site), study=DROP, site_column="site")
    assert (len(reading.pool.records), reading.left_out) == (1, {Isolated.BAD: 1})


@pytest.mark.parametrize("site", ["a/b", "..", "x" * 64, "a\x1bb"])
def test_a_site_that_cannot_be_called_so(tmp_path: Path, site: str) -> None:
    path = csv(tmp_path, [ROWS[1], ROWS[0].replace("north", site)])
    assert refusal(path, site_column="centre") == f"{path}: column centre: 1 of 2 cannot name a site"


def test_another_delimiter(tmp_path: Path) -> None:
    path = csv(tmp_path, ROWS)
    Path(path).write_text(Path(path).read_text().replace(",", ";"))
    assert len(take(path, delimiter=";").pool.records) == 4
    assert "the delimiter looks like a semicolon" in refusal(path)
    with pytest.raises(Misconfigured, match="delimiter ';;': not one character"):
        SourceOptions(delimiter=";;")


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    assert refusal(csv(tmp_path, ROWS), site_column="hospital").endswith("line 1: no column hospital")


def test_archives(tmp_path: Path) -> None:
    x = np.arange(3 * 48, dtype=np.uint8).reshape(3, 8, 6)
    site, part = np.array(["n", "s", "n"]), np.array(["test", "train", "train"])
    path = npz(tmp_path, x=x, y=np.array([1, 0, 1]), site=site, part=part)
    reading = take(path, study=IMAGES, site_column="site", split_column="part")
    pool = reading.pool
    assert pool.sites is not None
    assert pool.held_out is not None
    assert (pool.sites.tolist(), pool.held_out.tolist()) == (["s", "n", "n"], [False, False, True])
    assert pool.records.y.tolist() == [0, 1, 1]
    assert np.array_equal(pool.records.x[2, 0], x[0] / np.float32(127.5) - np.float32(1))
    assert take(path, study=IMAGES).pool.sites is None
    assert refusal(path, study=IMAGES, delimiter=";") == "--delimiter ';': is for CSV files"


def test_folders_of_images(tmp_path: Path) -> None:
    one, other = folder(tmp_path, "site.a", no=2, yes=1), folder(tmp_path, "b", yes=2)
    pool = take(one, other, study=IMAGES).pool
    assert pool.sites is not None
    assert (pool.sites.tolist(), pool.records.y.tolist()) == (["site.a"] * 3 + ["b"] * 2, [0, 0, 1, 1, 1])
    assert pool.records.x.shape == (5, 1, 8, 6)
    assert refusal(one, study=IMAGES, site_column="site") == f"{one}: a folder of images has no columns"


def test_files_that_do_not_go_together(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, twin, two = csv(tmp_path, ROWS), csv(tmp_path / "other", ROWS), csv(tmp_path, ROWS, "b.csv")
    archive = npz(tmp_path, x=np.zeros((1, 12)), y=np.zeros(1, np.int64))
    assert refusal(one, archive) == "data: different kinds of files together: .csv, .npz"
    assert refusal(one, twin) == "data: 2 files are called all, as their sites would be"
    assert refusal(one, two, site_column="centre") == "data: a site column and 2 files, of which each is a site"


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    absent = str(tmp_path / "a.csv")
    assert refusal(absent) == f"{absent}: cannot be read: No such file or directory"
    assert refusal(str(tmp_path / "a.parquet")) == f"{tmp_path}/a.parquet: is of no kind that is read here"
    assert refusal(str(tmp_path / "none")) == f"{tmp_path}/none: there is no such file or folder"
