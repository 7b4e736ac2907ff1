"""Fashion-MNIST and EMNIST, out of their idx files.

Invariant: the four files of a set are taken from one folder, so its parts are of one edition.

Sources: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
Algorithms", 2017. G. Cohen, S. Afshar, J. Tapson, A. van Schaik, "EMNIST: an extension of MNIST to handwritten
letters", 2017 (here its balanced set of 47 classes).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from secureproto.errors import Misconfigured
from secureproto.simulation.data.classes import Labelled, byte_images
from secureproto.simulation.data.idx import read_idx
from secureproto.simulation.data.reading import Reading
from secureproto.study.schema import StudyFile

FASHION_MNIST, EMNIST = "fashion-mnist", "emnist"
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
FASHION_PARTS = ("train", "t10k")
EMNIST_PARTS = ("emnist-balanced-train", "emnist-balanced-test")


def read_fashion_mnist(study: StudyFile, root: Path | None) -> Reading:
    """60,000 and, as its test part, 10,000 grey images of 28 × 28, ten classes.

    The files are those of `root` (by themselves, or as torchvision lays them); without one, of the Debian package. A
    root that has none of them is refused, not passed over: what was asked for would be another edition.

    Raises:
        Misconfigured: the files are absent or damaged, or the study has other records or classes.
    """
    folders = [DEBIAN_FOLDER] if root is None else [root / "FashionMNIST" / "raw", root]
    found = _read(folders, FASHION_PARTS)
    if found is None:
        raise Misconfigured(
            f"{FASHION_MNIST}: its four files ({_file(FASHION_PARTS[0], 3)}.gz and its kin) "
            f"are not under {folders[0]}",
            hint="install the Debian package dataset-fashion-mnist, or name a folder with them as the data root"
            if root is None
            else "name the folder with them as the data root; without a data root Debian's package is looked for",
        )
    return Reading(byte_images(FASHION_MNIST, study, classes=10, train=found[0], test=found[1]))


def read_emnist(study: StudyFile, root: Path | None) -> Reading:
    """112,800 and, as its test part, 18,800 grey images of 28 × 28, 47 classes.

    The files are those of `root`, by themselves or as torchvision lays them. They hold each image with rows and
    columns exchanged; here it stands upright.

    Raises:
        Misconfigured: as `read_fashion_mnist`.
    """
    found = None if root is None else _read([root, root / "EMNIST" / "raw"], EMNIST_PARTS)
    if found is None:
        where = "no data root is named" if root is None else f"not under {root / 'EMNIST' / 'raw'}"
        raise Misconfigured(
            f"{EMNIST}: its four files ({_file(EMNIST_PARTS[0], 3)} and its kin): {where}",
            hint='torchvision.datasets.EMNIST(ROOT, split="balanced", download=True) puts them under a data root',
        )
    train, test = (Labelled(part.images.swapaxes(2, 3), part.labels) for part in found)
    return Reading(byte_images(EMNIST, study, classes=47, train=train, test=test))


def _file(part: str, dimensions: int) -> str:
    return f"{part}-{'images' if dimensions == 3 else 'labels'}-idx{dimensions}-ubyte"


def _found(folder: Path, part: str, dimensions: int) -> list[Path]:
    plain = folder / _file(part, dimensions)
    return [path for path in (plain, plain.with_name(f"{plain.name}.gz")) if _is_file(path)][:1]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # of a folder that cannot be entered; its files are then told to be absent
        return False


def _read(folders: Sequence[Path], parts: tuple[str, str]) -> tuple[Labelled, Labelled] | None:
    """Training and test part, from the first folder that has all four files; None if none has."""
    for folder in folders:
        files = [path for part in parts for dimensions in (3, 1) for path in _found(folder, part, dimensions)]
        if len(files) == 4:
            return _labelled(*files[:2]), _labelled(*files[2:])
    return None


def _labelled(images_file: Path, labels_file: Path) -> Labelled:
    images, labels = read_idx(images_file, dimensions=3), read_idx(labels_file, dimensions=1)
    if len(images) != len(labels):
        raise Misconfigured(f"{images_file}: {len(images)} images, and {len(labels)} labels in {labels_file.name}")
    return Labelled(images[:, np.newaxis], labels.astype(np.int64))
