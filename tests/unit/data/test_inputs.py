"""What `predict` reads: no label, the site's own names, records without a prediction named."""

from pathlib import Path

import pytest
from PIL import Image

from secureproto.data.inputs import read_inputs
from secureproto.data.settings import CsvSettings
from secureproto.errors import Misconfigured
from secureproto.study.features import FeatureSchema
from secureproto.study.file import load
from support.study_toml import dumps, image_table, put, tabular_table

STUDY = load(dumps(tabular_table()))
HEADER = "pid,age,dose,rate,sex,pain,ecg"
GOOD = "p1,50,1.0,120,m,2,1"


def test_a_table_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}\n{GOOD}\np2,,1,120,m,2,1\np3,20,1,120,f,2,1\n")
    found = read_inputs(path, STUDY)
    assert found.names == ("1", "3")
    assert found.left_out == ("row 2 (line 3): column age: missing",)
    assert found.left_out_count == 1
    record = dict(zip(HEADER.split(","), GOOD.split(","), strict=True))
    assert found.x[0].tolist() == FeatureSchema(STUDY).encode(record).tolist()


def test_the_sites_own_names_and_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n".replace(",", ";").replace("age", "ALTER"))
    settings = CsvSettings(
        kind="csv", path=Path("train.csv"), delimiter=";", columns={"age": "ALTER", "out": "dx"}, id_column="pid"
    )
    assert read_inputs(path, STUDY, settings).names == ("p1",)
    path.write_text(path.read_text().replace("pid", "other"))
    assert read_inputs(path, STUDY, settings).names == ("1",)


def test_bad_rows_by_the_study(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n{GOOD.replace('50', 'secret')}\n")
    with pytest.raises(Misconfigured, match=r"row 2 \(line 3\): column age: not a number") as caught:
        read_inputs(path, STUDY)
    assert "secret" not in caught.value.message
    dropping = load(dumps(put(tabular_table(), "data.bad_record", "drop")))
    assert read_inputs(path, dropping).names == ("1",)


def test_nothing_to_predict(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}\n")
    with pytest.raises(Misconfigured, match="no record"):
        read_inputs(path, STUDY)
    path.write_text(f"{HEADER}\n{GOOD.replace('50', '')}\n")
    found = read_inputs(path, STUDY)
    assert (found.x.shape, found.left_out_count) == ((0, 12), 1)


def test_images_one_or_many(tmp_path: Path) -> None:
    study = load(dumps(image_table()))
    (tmp_path / "in").mkdir()
    for name in ("b.png", "in/a.png"):
        Image.new("L", (6, 8), 255).save(tmp_path / name)
    (tmp_path / "c.png").write_text("no image")
    found = read_inputs(tmp_path, study)
    assert found.names == ("b.png", "in/a.png")
    assert found.x.shape == (2, 1, 8, 6)
    assert found.left_out == ("c.png: the image does not decode",)
    assert read_inputs(tmp_path / "b.png", study).names == ("b.png",)
