"""Whatever the bytes of a site's file are, a load gives records that fit or one line; nothing else escapes."""

import io
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from secureproto.data.factory import open_source
from secureproto.data.settings import CsvSettings, NpzSettings
from secureproto.data.source import DataSource, check_loaded
from secureproto.errors import Misconfigured
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from support.study_toml import dumps, image_table, put, tabular_table

CSV = (
    b"pid,age,dose,rate,sex,pain,ecg,out\n"
    b"p1,50,1.0,120,m,2,1,0\n"
    b'p2,51,,120,"f",3,,1\r\n'
    b"p3,NA,1.5,90,f,1,0,2\n"
    b"p4,20,0.5,60,m,1,0,2\n"
)
STOP = load(dumps(tabular_table()))
DROP = load(dumps(put(tabular_table(), "data.bad_record", "drop")))
IMAGES = load(dumps(image_table()))


def archive() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros((2, 8, 6), np.uint8), y=np.array([0, 1]))
    return buffer.getvalue()


def npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


NPZ = archive()
NPY = npy(np.zeros((2, 8, 6), np.uint8))


@pytest.fixture(scope="module")
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "data"


def fits_or_one_line(source: DataSource, study: StudyFile, path: Path) -> None:
    try:
        loaded = source.load(study)
    except Misconfigured as error:
        line = error.message
    else:
        check_loaded(loaded, study, "source")
        line = " ".join(loaded.notes) or str(path)
    assert line.isprintable()


@given(st.binary(max_size=6), st.integers(0, len(CSV)), st.integers(0, 30), st.sampled_from([STOP, DROP]))
def test_any_change_of_a_csv_file(path: Path, inserted: bytes, start: int, cut: int, study: StudyFile) -> None:
    path.write_bytes(CSV[:start] + inserted + CSV[start + cut :])
    settings = CsvSettings(kind="csv", path=path, id_column="pid", hold_out=0.3)
    fits_or_one_line(open_source(settings, key=bytes(32)), study, path)


@given(st.binary(max_size=6), st.integers(0, len(NPY) - 1), st.integers(0, 30))
def test_any_change_of_an_array(path: Path, inserted: bytes, start: int, cut: int) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", NPY[:start] + inserted + NPY[start + cut :])
        file.writestr("y.npy", npy(np.array(["no", "yes"])))
    settings = NpzSettings(kind="npz", path=path, hold_out=0)
    fits_or_one_line(open_source(settings, key=bytes(32)), IMAGES, path)


@given(st.binary(max_size=6), st.integers(0, len(NPZ)), st.integers(0, 30))
def test_any_change_of_an_archive(path: Path, inserted: bytes, start: int, cut: int) -> None:
    path.write_bytes(NPZ[:start] + inserted + NPZ[start + cut :])
    settings = NpzSettings(kind="npz", path=path, hold_out=0)
    fits_or_one_line(open_source(settings, key=bytes(32)), IMAGES, path)
