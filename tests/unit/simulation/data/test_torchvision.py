"""The readers of published image sets against torchvision's own, on the same files in the published layout.

torchvision is the other party: what its classes give of a file (order of the images, of the channels, of rows and
columns, labels, names of the classes) is what ours must give, to the last bit. EMNIST alone differs by design: its
files have rows and columns exchanged, torchvision gives them as they lie, and here they stand upright.
"""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torchvision import datasets

from secureproto.data.arrays import scaled
from secureproto.simulation.data import mnist_kin
from secureproto.simulation.data.catalogue import example_study, load_pool
from secureproto.simulation.data.reading import SourceOptions
from secureproto.simulation.population import Pool
from secureproto.study.file import load

Bytes = NDArray[np.uint8]
PER_FILE = 30  # records of each file; the published ones have 10,000 and more


def pool(name: str, root: Path) -> Pool:
    return load_pool([name], load(example_study(name)), options=SourceOptions(), root=root)


def demand_equal(found: Pool, train: tuple[Bytes, list[int]], test: tuple[Bytes, list[int]]) -> None:
    """`train` and `test`: images (n, channels, height, width) and labels, of torchvision."""
    assert found.held_out is not None
    assert found.held_out.tolist() == [False] * len(train[1]) + [True] * len(test[1])
    images = np.concatenate([train[0], test[0]])
    assert found.records.x.shape == images.shape
    assert found.records.x.tobytes() == scaled(images).tobytes()
    assert found.records.y.tolist() == [*train[1], *test[1]]


# ---- CIFAR


def number(value: int) -> bytes:
    return b"J" + value.to_bytes(4, "little", signed=True)


def text(value: str) -> bytes:
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


def octets(value: bytes) -> bytes:
    return b"B" + len(value).to_bytes(4, "little") + value


def listed(items: list[bytes]) -> bytes:
    return b"](" + b"".join(items) + b"e"


def array(values: Bytes) -> bytes:
    """A NumPy array as protocol 3 has it: `_reconstruct`, then its state (version, shape, dtype, order, bytes)."""
    dtype = b"cnumpy\ndtype\n" + text("u1") + number(0) + number(1) + b"\x87R("
    dtype += number(3) + text("|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + octets(b"b") + b"\x87R"
    shape = number(values.shape[0]) + number(values.shape[1]) + b"\x86"
    return made + b"(" + number(1) + shape + dtype + b"\x89" + octets(values.tobytes()) + b"tb"


def table(**entries: bytes) -> bytes:
    return b"\x80\x03}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u."


CIFAR: dict[str, tuple[Any, list[str]]] = {
    "cifar10": (datasets.CIFAR10, ["labels"]),
    "cifar100": (datasets.CIFAR100, ["coarse_labels", "fine_labels"]),
}


def published(name: str, root: Path, monkeypatch: pytest.MonkeyPatch, per_file: int = PER_FILE) -> Any:
    """Files as the archive has them, whose digests are torchvision's for the time of a test. Returns its class.

    A row of `data` is the red plane, row by row, then the green, then the blue; every label occurs.
    """
    (kind, keys), numbers = CIFAR[name], np.random.default_rng(0)
    folder = root / kind.base_folder
    folder.mkdir(parents=True)

    def put(file: str, data: bytes) -> str:
        (folder / file).write_bytes(data)
        return hashlib.md5(data, usedforsecurity=False).hexdigest()

    for part in ("train_list", "test_list"):
        entries = []
        for file, _ in getattr(kind, part):
            labels = {key: numbers.permutation(np.arange(per_file) % (20 if key[0] == "c" else 100)) for key in keys}
            if name == "cifar10":
                labels = {"labels": numbers.permutation(np.arange(per_file) % 10)}
            pixels = numbers.integers(0, 256, (per_file, 3072)).astype(np.uint8)
            told = {key: listed([number(int(each)) for each in values]) for key, values in labels.items()}
            entries.append([file, put(file, table(batch_label=text(file), data=array(pixels), **told))])
        monkeypatch.setattr(kind, part, entries)
    names = listed([text(each) for each in load(example_study(name)).classes])
    meta = {**kind.meta, "md5": put(kind.meta["filename"], table(**{kind.meta["key"]: names}))}
    monkeypatch.setattr(kind, "meta", meta)
    return kind


@pytest.mark.parametrize("name", CIFAR)
def test_cifar_is_what_torchvision_reads(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = published(name, tmp_path, monkeypatch, 30 if name == "cifar10" else 120)
    parts = [kind(tmp_path, train=train) for train in (True, False)]
    train, test = (
        (np.stack([np.asarray(part[index][0]).transpose(2, 0, 1) for index in range(len(part))]), part.targets)
        for part in parts
    )
    demand_equal(pool(name, tmp_path), train, test)
    classes = load(example_study(name)).classes
    assert set(train[1]) == set(range(len(classes)))
    assert tuple(parts[0].classes) == classes
    red = np.asarray(parts[0][0][0])[..., 0]  # torchvision's images are RGB
    assert pool(name, tmp_path).records.x[0, 0].tobytes() == scaled(red).tobytes()


CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""


@pytest.mark.parametrize(("name", "published_names"), [("cifar10", CIFAR10), ("cifar100", CIFAR100)])
def test_the_classes_of_cifar_are_called_and_ordered_as_published(name: str, published_names: str) -> None:
    """In their own files, which are not at hand here, they stand as `label_names` and `fine_label_names`."""
    assert list(load(example_study(name)).classes) == published_names.split()


# ---- EMNIST and Fashion-MNIST


def idx(values: Bytes) -> bytes:
    sizes = b"".join(side.to_bytes(4, "big") for side in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()


def kin(folder: Path, parts: tuple[str, str], classes: int, *, sizes: tuple[int, int]) -> None:
    """The four files of a set; no image is its own transpose, and every label occurs."""
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(1)
    for part, size in zip(parts, sizes, strict=True):
        images = numbers.integers(0, 256, (size, 28, 28)).astype(np.uint8)
        labels = numbers.permutation(np.arange(size) % classes).astype(np.uint8)
        for ending, values in (("images-idx3", images), ("labels-idx1", labels)):
            (folder / f"{part}-{ending}-ubyte").write_bytes(idx(values))


def of_torchvision(dataset: Any) -> tuple[Bytes, list[int]]:
    return dataset.data.numpy()[:, np.newaxis], dataset.targets.tolist()


def test_emnist_balanced_is_what_torchvision_reads_but_upright(tmp_path: Path) -> None:
    kin(tmp_path / "EMNIST" / "raw", mnist_kin.EMNIST_PARTS, 47, sizes=(141, 94))
    # another split beside it, as the archive brings them all: it is not taken
    for part in ("train", "test"):
        for ending in ("images-idx3", "labels-idx1"):
            (tmp_path / "EMNIST/raw" / f"emnist-letters-{part}-{ending}-ubyte").write_bytes(b"another split")
    train, test = (of_torchvision(datasets.EMNIST(tmp_path, "balanced", train=train)) for train in (True, False))
    assert set(train[1]) == set(range(47))
    upright = ((images.swapaxes(2, 3), labels) for images, labels in (train, test))
    demand_equal(pool("emnist", tmp_path), *upright)


def test_the_classes_of_emnist_balanced_are_torchvision_s() -> None:
    study = load(example_study("emnist"))
    assert list(study.classes) == list(datasets.EMNIST.classes_split_dict["balanced"])


@pytest.mark.parametrize("packed", [False, True])
def test_fashion_mnist_is_what_torchvision_reads(packed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "FashionMNIST" / "raw"
    kin(folder, mnist_kin.FASHION_PARTS, 10, sizes=(30, 20))
    train, test = (of_torchvision(datasets.FashionMNIST(tmp_path, train=train)) for train in (True, False))
    if packed:  # as the archive is fetched; torchvision itself reads the unpacked files beside them
        for path in list(folder.iterdir()):
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    demand_equal(pool("fashion-mnist", tmp_path), train, test)


def test_the_classes_of_fashion_mnist_are_torchvision_s() -> None:
    assert [each.lower() for each in load(example_study("fashion-mnist")).classes] == [
        each.lower() for each in datasets.FashionMNIST.classes
    ]
