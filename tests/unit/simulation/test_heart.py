"""The four hospitals: their rows, the study over them, and the split of the published benchmark."""

import csv
from pathlib import Path

import pytest

from secureproto.data.factory import open_source
from secureproto.data.settings import CsvSettings
from secureproto.data.source import Isolated, Loaded
from secureproto.errors import Misconfigured
from secureproto.simulation.heart.hospitals import (
    HOSPITALS,
    data_path,
    licence_path,
    study_path,
    write_hospital,
)
from secureproto.study.features import FeatureSchema
from secureproto.study.file import load

# rows, and train / test of FLamby's split, in the data's README
COUNTS = {
    "cleveland": (303, 199, 104),
    "hungary": (294, 172, 89),
    "switzerland": (123, 30, 16),
    "long-beach": (200, 85, 45),
}


def loaded(site: str, directory: Path, **settings: object) -> Loaded:
    path = directory / f"{site}.csv"
    write_hospital(site, path)
    table = {"kind": "csv", "path": path, **settings}
    return open_source(CsvSettings.model_validate(table), key=bytes(32)).load(load(study_path()))


def test_every_row_goes_to_one_hospital(tmp_path: Path) -> None:
    ids: set[str] = set()
    for site in HOSPITALS:
        assert write_hospital(site, tmp_path / "a.csv") == COUNTS[site][0]
        with (tmp_path / "a.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert "site" not in rows[0]
        ids |= {row["id"] for row in rows}
    with data_path().open(newline="") as file:
        assert len(ids) == len(list(csv.DictReader(file))) == 920


@pytest.mark.parametrize("site", HOSPITALS)
def test_the_benchmarks_split(tmp_path: Path, site: str) -> None:
    found = loaded(site, tmp_path, split_column="split")
    assert (len(found.train), len(found.test)) == COUNTS[site][1:]
    assert found.isolated.get(Isolated.NO_SPLIT, 0) == COUNTS[site][0] - sum(COUNTS[site][1:])
    # all 30 training patients of Switzerland are ill: a site without one of the classes, and that is normal
    assert set(found.train.y.tolist()) == ({1} if site == "switzerland" else {0, 1})


def test_a_keyed_hold_out_drops_and_counts_the_gaps(tmp_path: Path) -> None:
    found = loaded("long-beach", tmp_path, id_column="id", hold_out=0.3)
    gaps = found.isolated[Isolated.MISSING]
    assert len(found.train) + len(found.test) + gaps == 200
    assert (gaps, set(found.isolated)) == (70, {Isolated.MISSING})


def test_the_study_is_the_documented_one() -> None:
    study = load(study_path())
    assert FeatureSchema(study).encoded == (
        "age", "sex=0", "sex=1", "cp=1", "cp=2", "cp=3", "cp=4", "trestbps", "chol", "fbs=0", "fbs=1",
        "restecg=0", "restecg=1", "restecg=2", "thalach", "exang=0", "exang=1", "oldpeak",
    )  # fmt: skip
    assert (study.rounds.total, study.rounds.quorum) == (30, 3)
    assert (study.relation.normalisation, study.relation.representation) == ("evidence", "prior")


def test_the_licence_travels_with_the_data() -> None:
    assert "CC BY 4.0" in licence_path().read_text(encoding="utf-8")


def test_another_hospital_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no hospital 'boston'"):
        write_hospital("boston", tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()
