"""CIFAR through torchvision: small files in the published format, and none opened that is not the published one."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torchvision import datasets

from secureproto.data.arrays import scaled
from secureproto.errors import Misconfigured
from secureproto.simulation.data.catalogue import example_study, load_pool
from secureproto.simulation.data.reading import SourceOptions
from secureproto.simulation.population import Pool
from secureproto.study.file import load

KINDS = {"cifar10": (datasets.CIFAR10, "labels", 10), "cifar100": (datasets.CIFAR100, "fine_labels", 100)}
COUNT = 4  # images a file


def text(value: str) -> bytes:
    return b"S'" + "".join(f"\\x{ord(sign):02x}" for sign in value).encode() + b"'\n"


def array(values: NDArray[np.uint8]) -> bytes:
    """An array as the published files have it: NumPy's reconstruction, its dtype with a flag as an integer.

    The published ones have two such flags, of which only some versions of NumPy warn; of one, all later do.
    """
    shape = b"(" + b"".join(b"I%d\n" % side for side in values.shape) + b"t"
    dtype = b"cnumpy\ndtype\n(S'u1'\nI0\nI01\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    return made + b"(I1\n" + shape + dtype + b"I00\n" + text(values.tobytes().decode("latin1")) + b"tb"


def batch(key: str, pixels: NDArray[np.uint8], labels: list[int]) -> bytes:
    listed = b"(l" + b"".join(b"I%d\na" % label for label in labels)
    return b"(d" + text("data") + array(pixels) + b"s" + text(key) + listed + b"s."


def write(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> NDArray[np.uint8]:
    """Small files where torchvision looks, published for the time of a test; returns their images."""
    kind, key, count = KINDS[name]
    folder = root / kind.base_folder
    folder.mkdir(parents=True)
    every: list[NDArray[np.uint8]] = []
    numbers = np.random.default_rng(0)

    def put(file: str, data: bytes) -> str:
        (folder / file).write_bytes(data)
        return hashlib.md5(data, usedforsecurity=False).hexdigest()

    for part in ("train_list", "test_list"):
        listed = []
        for file, _ in getattr(kind, part):
            every.append(numbers.integers(0, 256, (COUNT, 3072)).astype(np.uint8))
            labels = np.linspace(0, count - 1, COUNT).astype(int).tolist()
            listed.append([file, put(file, batch(key, every[-1], labels))])
        monkeypatch.setattr(kind, part, listed)
    names = b"(d" + text(kind.meta["key"]) + b"(l" + text("a") + b"as."
    meta = {**kind.meta, "md5": put(kind.meta["filename"], names)}
    monkeypatch.setattr(kind, "meta", meta)
    return np.concatenate(every).reshape(-1, 3, 32, 32)


def pool(name: str, root: Path | None) -> Pool:
    return load_pool([name], load(example_study(name)), options=SourceOptions(), root=root)


@pytest.mark.parametrize("name", KINDS)
def test_images_and_labels(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = write(name, tmp_path, monkeypatch)
    found = pool(name, tmp_path)
    assert np.array_equal(found.records.x, scaled(images))
    assert found.records.y[:COUNT].tolist() == np.linspace(0, KINDS[name][2] - 1, COUNT).astype(int).tolist()
    assert found.held_out is not None
    assert found.held_out.tolist() == [False] * (len(images) - COUNT) + [True] * COUNT


@pytest.mark.parametrize("name", KINDS)
def test_absent_files_are_named(name: str, tmp_path: Path) -> None:
    for root, where in ((None, "no data root is named"), (tmp_path, str(tmp_path / KINDS[name][0].base_folder))):
        with pytest.raises(Misconfigured) as caught:
            pool(name, root)
        assert where in caught.value.message
        assert all(file in caught.value.message for file, _ in KINDS[name][0].train_list)
        assert f"torchvision.datasets.{KINDS[name][0].__name__}" in caught.value.hint


@pytest.mark.parametrize("which", ["train", "test", "meta"])
def test_a_file_that_is_not_the_published_one_is_never_opened(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("cifar100", tmp_path, monkeypatch)
    mark = tmp_path / "ran"
    planted: Any = b"cos\nmkdir\n(" + text(str(mark)) + b"tR."
    (tmp_path / datasets.CIFAR100.base_folder / which).write_bytes(planted)
    with pytest.raises(Misconfigured, match="or not as published"):
        pool("cifar100", tmp_path)
    assert not mark.exists()
