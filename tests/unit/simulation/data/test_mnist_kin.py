"""Fashion-MNIST and EMNIST: the real files where they are installed, and small ones in every layout."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.data.arrays import scaled
from secureproto.errors import Misconfigured
from secureproto.simulation.data import classes, mnist_kin
from secureproto.simulation.data.catalogue import example_study, load_pool
from secureproto.simulation.data.idx import read_idx
from secureproto.simulation.data.mnist_kin import DEBIAN_FOLDER, EMNIST_PARTS, FASHION_PARTS
from secureproto.simulation.data.reading import SourceOptions
from secureproto.simulation.population import Pool
from secureproto.study.file import load

SIZES = (5, 3)


def idx(array: NDArray[Any]) -> bytes:
    """The array as an idx file of bytes."""
    sizes = b"".join(side.to_bytes(4, "big") for side in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write(folder: Path, parts: tuple[str, str], *, packed: bool, top: int = 9) -> dict[str, NDArray[np.uint8]]:
    folder.mkdir(parents=True, exist_ok=True)
    numbers, arrays = np.random.default_rng(0), {}
    for part, size in zip(parts, SIZES, strict=True):
        arrays[f"{part}-images-idx3-ubyte"] = numbers.integers(0, 256, (size, 28, 28)).astype(np.uint8)
        arrays[f"{part}-labels-idx1-ubyte"] = np.linspace(0, top, size).astype(np.uint8)
    for name, array in arrays.items():
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    return arrays


def pool(name: str, root: Path | None) -> Pool:
    return load_pool([name], load(example_study(name)), options=SourceOptions(), root=root)


def refusal(name: str, root: Path | None) -> str:
    with pytest.raises(Misconfigured) as caught:
        pool(name, root)
    return f"{caught.value.message} | {caught.value.hint}"


@pytest.mark.parametrize(("below", "packed"), [("FashionMNIST/raw", False), ("FashionMNIST/raw", True), ("", True)])
def test_a_data_root_goes_first(tmp_path: Path, below: str, packed: bool) -> None:
    arrays = write(tmp_path / below, FASHION_PARTS, packed=packed)
    found = pool("fashion-mnist", tmp_path)
    images = np.concatenate([arrays[f"{part}-images-idx3-ubyte"] for part in FASHION_PARTS])
    assert found.held_out is not None
    assert found.held_out.tolist() == [False] * 5 + [True] * 3
    assert found.sites is None
    assert np.array_equal(found.records.x[:, 0], scaled(images))
    assert found.records.y.tolist() == [0, 2, 4, 6, 9, 0, 4, 9]


def test_a_data_root_without_the_files_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debian = tmp_path / "debian"
    write(debian, FASHION_PARTS, packed=True)
    monkeypatch.setattr(mnist_kin, "DEBIAN_FOLDER", debian)
    assert len(pool("fashion-mnist", None).records) == 8
    assert f"not under {tmp_path / 'other' / 'FashionMNIST' / 'raw'} | " in refusal(
        "fashion-mnist", tmp_path / "other"
    )


def test_scaling_by_chunks_is_scaling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, FASHION_PARTS, packed=True)
    whole = pool("fashion-mnist", tmp_path).digest()
    monkeypatch.setattr(classes, "CHUNK", 2)
    assert pool("fashion-mnist", tmp_path).digest() == whole


def test_emnist_stands_upright(tmp_path: Path) -> None:
    arrays = write(tmp_path / "EMNIST" / "raw", EMNIST_PARTS, packed=False, top=46)
    found = pool("emnist", tmp_path)
    first = arrays["emnist-balanced-train-images-idx3-ubyte"][0]
    assert np.array_equal(found.records.x[0, 0], scaled(first.T))
    assert found.records.y.max() == 46
    assert found.records.x.flags.c_contiguous


def test_absent_files_say_who_brings_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist_kin, "DEBIAN_FOLDER", tmp_path / "none")
    said = refusal("fashion-mnist", tmp_path)
    assert said.startswith("fashion-mnist: its four files (train-images-idx3-ubyte.gz and its kin) are not under")
    assert str(tmp_path / "FashionMNIST" / "raw") in said
    said = refusal("fashion-mnist", None)
    assert f"are not under {tmp_path / 'none'} | install the Debian package dataset-fashion-mnist" in said
    assert "no data root is named" in refusal("emnist", None)
    assert f"not under {tmp_path}/EMNIST/raw" in refusal("emnist", tmp_path)


def test_a_set_with_a_file_missing_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist_kin, "DEBIAN_FOLDER", tmp_path / "none")
    write(tmp_path, FASHION_PARTS, packed=True)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert "its four files" in refusal("fashion-mnist", tmp_path)


def test_files_that_are_damaged(tmp_path: Path) -> None:
    arrays = write(tmp_path, FASHION_PARTS, packed=False)
    labels = tmp_path / "train-labels-idx1-ubyte"
    labels.write_bytes(idx(arrays[labels.name][:-1]))
    assert "train-images-idx3-ubyte: 5 images, and 4 labels" in refusal("fashion-mnist", tmp_path)
    labels.write_bytes(idx(np.array([0, 1, 2, 3, 10])))
    assert "fashion-mnist: a label is not one of its 10" in refusal("fashion-mnist", tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((5, 28, 27))))
    labels.write_bytes(idx(arrays[labels.name]))
    assert "fashion-mnist: images of 1 × 28 × 27, and the study" in refusal("fashion-mnist", tmp_path)


GOOD = idx(np.arange(6).reshape(2, 3))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", "not an idx file of bytes in 2 dimensions"),
        (GOOD[:11], "not an idx file of bytes in 2 dimensions"),
        (b"\x00\x01" + GOOD[2:], "not an idx file"),
        (b"\x00\x00\x0d" + GOOD[3:], "not an idx file"),
        (idx(np.arange(6)), "not an idx file of bytes in 2 dimensions"),
        (GOOD[:-1], "has fewer bytes than its header says (6)"),
        (GOOD + b"\x00", "has more bytes than its header says (6)"),
        (GOOD[:4] + b"\xff" * 8, "its header says 18446744065119617025 bytes"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_no_idx_file(tmp_path: Path, data: bytes, line: str, packed: bool) -> None:
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(Misconfigured) as caught:
        read_idx(path, dimensions=2)
    assert caught.value.message.startswith(f"{path}: ")
    assert line in caught.value.message


def test_packing_that_is_damaged(tmp_path: Path) -> None:
    path, good = tmp_path / "a.gz", gzip.compress(GOOD)
    path.write_bytes(good)
    assert read_idx(path, dimensions=2).tolist() == [[0, 1, 2], [3, 4, 5]]
    for data in (GOOD, good[:-9], good[:12] + b"\xff" + good[13:], good[:-8] + bytes(8)):
        path.write_bytes(data)
        with pytest.raises(Misconfigured, match="its packing is damaged"):
            read_idx(path, dimensions=2)
    with pytest.raises(Misconfigured, match="No such file"):
        read_idx(tmp_path / "b", dimensions=2)


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="needs the Debian package dataset-fashion-mnist")
def test_the_debian_package() -> None:
    found = pool("fashion-mnist", None)
    assert found.records.x.shape == (70_000, 1, 28, 28)
    assert (found.records.x.min(), found.records.x.max()) == (-1, 1)
    assert found.held_out is not None
    assert found.held_out.sum() == 10_000
    assert np.bincount(found.records.y[~found.held_out]).tolist() == [6_000] * 10
    assert np.bincount(found.records.y[found.held_out]).tolist() == [1_000] * 10
    # the published mean of the training pixels, 0.2860 of 1
    assert abs((float(found.records.x[~found.held_out].mean(dtype=np.float64)) + 1) / 2 - 0.2860) < 1e-4
