"""Every data source, ours and the example of a third party, against the public contract."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from secureproto.data.factory import open_source
from secureproto.data.settings import CsvSettings, FactorySettings, ImageFolderSettings, NpzSettings
from secureproto.data.source import DataSource
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from support.data_source_contract import KEY, DataSourceContract
from support.study_toml import dumps, image_table, put, tabular_table

SMALL = [
    {"name": "age", "kind": "number", "min": 0, "max": 100},
    {"name": "sex", "kind": "category", "values": ["f", "m"]},
]


def small_study() -> StudyFile:
    table = put(put(tabular_table(), "data.features", SMALL), "data.label", {"column": "out"})
    return load(dumps(table))


class TestCsv(DataSourceContract):
    def study(self) -> StudyFile:
        return small_study()

    def open(self, directory: Path, count: int, share: float) -> DataSource:
        lines = [f"p{i},{i + 0.5},{'fm'[i % 2]},{label(i)}" for i in range(count)]
        (directory / "a.csv").write_text("\n".join(["pid,age,sex,out", *lines]) + "\n", encoding="utf-8")
        settings = CsvSettings(kind="csv", path=directory / "a.csv", id_column="pid", hold_out=share)
        return open_source(settings, key=KEY)

    def spoil(self, directory: Path) -> str:
        path = directory / "a.csv"
        path.write_text(path.read_text(encoding="utf-8").replace("p0,0.5", "p0,secret", 1), encoding="utf-8")
        return "secret"


class TestThirdParty(DataSourceContract):
    def study(self) -> StudyFile:
        return small_study()

    def open(self, directory: Path, count: int, share: float) -> DataSource:
        path = directory / "a.txt"
        lines = [f"p{i} {i + 0.5} {'fm'[i % 2]} | {label(i)}" for i in range(count)]
        path.write_text("\n".join(lines), encoding="utf-8")
        name = "support.tiny_source:factory"
        settings = FactorySettings(kind="factory", factory=name, options={"path": str(path)}, hold_out=share)
        return open_source(settings, key=KEY, allowed_factories=[name])

    def spoil(self, directory: Path) -> str:
        path = directory / "a.txt"
        path.write_text(path.read_text(encoding="utf-8").replace("p0 0.5", "p0 secret", 1), encoding="utf-8")
        return "secret"


class TestNpz(DataSourceContract):
    def study(self) -> StudyFile:
        return load(dumps(image_table()))

    def open(self, directory: Path, count: int, share: float) -> DataSource:
        self.write(directory, pixels(count), count)
        settings = NpzSettings(kind="npz", path=directory / "a.npz", id="pid", hold_out=share)
        return open_source(settings, key=KEY)

    def write(self, directory: Path, x: NDArray[np.float64], count: int) -> None:
        y = np.array([int(label(i) == "yes") for i in range(count)], dtype=np.int32)
        np.savez_compressed(directory / "a.npz", x=x, y=y, pid=np.arange(count))

    def spoil(self, directory: Path) -> str:
        x = pixels(12)
        x[0, 3, 2] = np.nan
        self.write(directory, x, 12)
        return "nan"


class TestImageFolder(DataSourceContract):
    def study(self) -> StudyFile:
        return load(dumps(image_table()))

    def open(self, directory: Path, count: int, share: float) -> DataSource:
        for name in ("no", "yes"):
            (directory / name).mkdir(exist_ok=True)
        for index, image in enumerate(pixels(count)):
            grey = Image.fromarray(np.round((image + 1) * 127.5).astype(np.uint8))
            grey.save(directory / label(index) / f"{index:03d}.png")
        return open_source(ImageFolderSettings(kind="image_folder", path=directory, hold_out=share), key=KEY)

    def spoil(self, directory: Path) -> str:
        (directory / "no" / "000.png").write_bytes(b"secret")
        return "secret"


def label(index: int) -> str:
    """Every fifth record from the second on has the second class."""
    return "yes" if index % 5 == 1 else "no"


def pixels(count: int) -> NDArray[np.float64]:
    """(count, 8, 6) in [-1, 1], the first ones the same for every count."""
    return np.random.default_rng(5).uniform(-1, 1, (60, 8, 6))[:count]
