"""NumPy archives: what is taken, how it is scaled, and that no object is ever unpacked."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.data.arrays import NpzSource
from secureproto.data.factory import open_source
from secureproto.data.holdout import HoldOut
from secureproto.data.settings import NpzSettings
from secureproto.data.source import Isolated, Loaded
from secureproto.errors import Misconfigured
from secureproto.study.file import load
from support.study_toml import dumps, image_table, put, tabular_table

IMAGES = load(dumps(image_table()))
TABLE = load(dumps(tabular_table()))
Y = np.array([0, 1, 1])
X = np.zeros((3, 8, 6), np.uint8)


def read(path: Path, arrays: dict[str, NDArray[Any]], *, tabular: bool = False, **settings: object) -> Loaded:
    path = path / "a.npz"
    if arrays:
        np.savez(path, **arrays)  # type: ignore[arg-type]  # its stub takes allow_pickle by name first
    table = {"kind": "npz", "path": path, "hold_out": 0, **settings}
    return open_source(NpzSettings.model_validate(table), key=bytes(32)).load(TABLE if tabular else IMAGES)


def refusal(path: Path, arrays: dict[str, NDArray[Any]], *, tabular: bool = False, **settings: object) -> str:
    with pytest.raises(Misconfigured) as caught:
        read(path, arrays, tabular=tabular, **settings)
    assert caught.value.message.isprintable()
    return caught.value.message


def test_bytes_become_the_interval(tmp_path: Path) -> None:
    x = X.copy()
    x[0, 0, :3] = 0, 255, 51
    loaded = read(tmp_path, {"x": x, "y": Y})
    assert loaded.train.x.shape == (3, 1, 8, 6)
    assert loaded.train.x[0, 0, 0, :3].tolist() == pytest.approx([-1, 1, -0.6])
    assert loaded.train.y.tolist() == [0, 1, 1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_are_clamped(tmp_path: Path, dtype: str, order: Any) -> None:
    x = np.zeros((3, 1, 8, 6), dtype=dtype, order=order)
    x[1, 0, 2, 3], x[1, 0, 2, 4], x[2, 0, 0, 0] = 9, -5, 0.5
    loaded = read(tmp_path, {"x": x, "y": Y})
    assert loaded.train.x.dtype == np.float32
    assert (loaded.train.x[1, 0, 2, 3], loaded.train.x[2, 0, 0, 0]) == (1, 0.5)
    assert loaded.clamped == {"x": 2}  # values, as of a table


def test_encoded_rows_of_a_tabular_study(tmp_path: Path) -> None:
    x = np.full((2, 12), 0.25)
    loaded = read(tmp_path, {"x": x, "y": np.array(["0", "2"])}, tabular=True)
    assert loaded.train.x.tolist() == x.tolist()
    assert loaded.train.y.tolist() == [0, 1]
    assert "array x: its dtype is not one of those allowed: floats" in refusal(
        tmp_path, {"x": x.astype(np.uint8), "y": np.array([0, 1])}, tabular=True
    )


def test_a_split_and_an_id(tmp_path: Path) -> None:
    split = np.array(["train", "test", ""])
    loaded = read(tmp_path, {"x": X, "y": Y, "s": split}, split="s")
    assert (len(loaded.train), len(loaded.test), loaded.isolated) == (1, 1, {Isolated.NO_SPLIT: 1})
    many: dict[str, NDArray[Any]] = {
        "x": np.zeros((200, 8, 6), np.uint8),
        "y": np.zeros(200, np.uint8),
        "i": np.arange(200),
    }
    held = read(tmp_path, many, id="i", hold_out=0.5)
    assert 70 <= len(held.test) <= 130


def test_bad_records_by_the_study(tmp_path: Path) -> None:
    x = np.zeros((3, 8, 6))
    x[1, 0, 0] = np.inf
    loaded = read(tmp_path, {"x": x, "y": np.array([0, 1, 7])})
    assert len(loaded.train) == 1
    assert loaded.notes == (
        "record 2: a number is not finite",
        "record 3: column label: unknown label; allowed: 0 to 1",
    )


class Exploding:
    """Pickled as a call that fails the test."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return pytest.fail, ("an object was unpacked",)


def test_objects_are_never_unpacked(tmp_path: Path) -> None:
    objects = np.array([Exploding()], dtype=object)
    for name in ("x", "y"):
        arrays = {"x": X, "y": Y, name: objects}
        assert f"array {name}: its dtype is not one of those allowed:" in refusal(tmp_path, arrays)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"x": X}, "array y: not in the archive"),
        ({"y": Y}, "array x: not in the archive"),
        ({"x": X, "y": Y[:2]}, "array y: not one entry for each of 3 records"),
        ({"x": X[:, :4], "y": Y}, "array x: shape (3, 4, 6); the study's records need (n, 1, 8, 6)"),
        ({"x": np.float32(1), "y": Y}, "array x: shape (); the study's records need"),
        ({"x": X.astype(np.uint16), "y": Y}, "array x: dtype uint16; allowed: uint8, or floats in [-1, 1]"),
        ({"x": X.astype(complex), "y": Y}, "array x: its dtype is not one of those allowed: floats or unsigned"),
        (
            {"x": X, "y": Y.astype(float)},
            "array y: its dtype is not one of those allowed: integers or unsigned integers or texts",
        ),
        ({"x": X[:0], "y": Y[:0]}, "no record to train on"),
    ],
)
def test_archives_that_do_not_fit(tmp_path: Path, arrays: dict[str, NDArray[Any]], expected: str) -> None:
    assert expected in refusal(tmp_path, arrays)


def test_files_that_are_no_archive(tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in refusal(tmp_path, {})
    (tmp_path / "a.npz").write_bytes(b"not a zip")
    assert "not a NumPy archive, or damaged" in refusal(tmp_path, {})


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    labels = np.array([0x41, 0x110000, 0x42], dtype="<u4").view("<U1")
    assert "array y: its bytes are no text" in refusal(tmp_path, {"x": X, "y": labels})
    odd = np.array(["\ud800", "b", "c"])
    held = read(tmp_path, {"x": X, "y": Y, "i": odd}, id="i", hold_out=0.01)
    assert len(held.train) + len(held.test) == 3


def archive(path: Path, x: bytes) -> None:
    buffer = io.BytesIO()
    np.save(buffer, Y)
    with zipfile.ZipFile(path / "a.npz", "w") as file:
        file.writestr("x.npy", x)
        file.writestr("y.npy", buffer.getvalue())


def test_arrays_whose_bytes_are_wrong(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, X)
    whole = buffer.getvalue()
    archive(tmp_path, whole)
    assert len(read(tmp_path, {}).train) == 3
    archive(tmp_path, whole[:-1])
    assert "array x: not as long as its header says" in refusal(tmp_path, {})
    archive(tmp_path, whole + b"\0")
    assert "array x: not as long as its header says" in refusal(tmp_path, {})
    for broken in (b"", b"\x93NUMPY\x09\x00" + whole[8:], whole[:60], whole.replace(b"'shape'", b"'shade'")):
        archive(tmp_path, broken)
        assert "array x: its header is not of the npy format" in refusal(tmp_path, {})
    for old, new in ((b"(3, 8, 6)", b"(3,-8,-6)"), (b"(3, 8, 6)", b"((3,8),6)"), (b"False", b"00000")):
        archive(tmp_path, whole.replace(old, new))
        assert "array x: its header is not of the npy format" in refusal(tmp_path, {})
    empty = whole[:128].replace(b"(3, 8, 6), }                   ", b"(0, 99999999999999999999), }   ")
    assert len(empty) == 128
    archive(tmp_path, empty)
    assert "array x: its header is not of the npy format" in refusal(tmp_path, {})
    archive(tmp_path, whole.replace(b"'|u1'", b"'|u3'"))
    assert "array x: its header is not of the npy format" in refusal(tmp_path, {})
    archive(tmp_path, whole)
    damaged = bytearray((tmp_path / "a.npz").read_bytes())
    damaged[200] ^= 1
    (tmp_path / "a.npz").write_bytes(bytes(damaged))
    assert "not a NumPy archive, or damaged" in refusal(tmp_path, {})


def test_the_label_map_of_the_study_holds_for_integers(tmp_path: Path) -> None:
    study = load(dumps(put(image_table(), "data.label", {"values": {"3": "yes", "4": "no"}})))
    np.savez(tmp_path / "a.npz", x=X, y=np.array([3, 4, 3]))
    source = open_source(NpzSettings(kind="npz", path=tmp_path / "a.npz", hold_out=0), key=bytes(32))
    assert source.load(study).train.y.tolist() == [1, 0, 1]


def test_a_further_array_beside_each_record(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y, room=np.array([7, 8, 7]), ward=np.array(["a", "", "b"]))
    source = NpzSource(NpzSettings(kind="npz", path=path, hold_out=0), HoldOut(0, bytes(32)))
    assert source.load_marked(IMAGES, "room").train == ("7", "8", "7")
    marked = source.load_marked(IMAGES, "ward")
    assert (marked.train, marked.test, marked.loaded.isolated) == (("a", "b"), (), {Isolated.BAD: 1})
    assert marked.loaded.notes == ("record 2: column ward: missing",)
    with pytest.raises(Misconfigured, match="array floor: not in the archive"):
        source.load_marked(IMAGES, "floor")
