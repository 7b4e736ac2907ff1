"""From what a person names after `--data` to the records: a published set by its name, or paths of files.

Invariants: nothing is ever fetched; a name that is none is refused with the nearest that is one; a name goes before a
path (`./heart` is the path).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

from secureproto.errors import Misconfigured
from secureproto.simulation.data.bundled import BREAST_CANCER, DIGITS, read_breast_cancer, read_digits
from secureproto.simulation.data.cifar import read_cifar10, read_cifar100
from secureproto.simulation.data.files import is_path, read_files
from secureproto.simulation.data.heart import read_heart
from secureproto.simulation.data.mnist_kin import EMNIST, FASHION_MNIST, read_emnist, read_fashion_mnist
from secureproto.simulation.data.reading import Reading, SourceOptions
from secureproto.simulation.heart.hospitals import study_path
from secureproto.simulation.population import Pool
from secureproto.study.schema import StudyFile

HEART = "heart"


@dataclass(frozen=True)
class DataSet:
    """A published set. `title`: what it is, one line. `licence`: of the data, and whose they are. `files`: who brings
    them. `read`: the records, from the study and the data root."""

    name: str
    title: str
    licence: str
    files: str
    read: Callable[[StudyFile, Path | None], Reading]


_SETS = {
    known.name: known
    for known in (
        DataSet(
            HEART,
            "heart disease in four hospitals, 740 patients, 10 findings, 2 classes; sites and split of FLamby",
            "CC BY 4.0; Janosi, Steinbrunn, Pfisterer, Detrano (UCI, 1988)",
            "secureproto itself",
            lambda study, _: read_heart(study),
        ),
        DataSet(
            DIGITS,
            "handwritten digits, 1,797 images of 1 × 8 × 8, 10 classes",
            "CC BY 4.0; Alpaydin, Kaynak (UCI, 1998)",
            "scikit-learn",
            lambda study, _: read_digits(study),
        ),
        DataSet(
            BREAST_CANCER,
            "breast masses, 569 rows of 30 numbers, 2 classes",
            "CC BY 4.0; Wolberg, Mangasarian, Street, Street (UCI, 1993)",
            "scikit-learn",
            lambda study, _: read_breast_cancer(study),
        ),
        DataSet(
            FASHION_MNIST,
            "pictures of clothes, 70,000 images of 1 × 28 × 28, 10 classes, own test part",
            "MIT; Zalando SE (2017)",
            "Debian package dataset-fashion-mnist, or torchvision.datasets.FashionMNIST under a data root",
            read_fashion_mnist,
        ),
        DataSet(
            "cifar10",
            "small photographs, 60,000 images of 3 × 32 × 32, 10 classes, own test part",
            "none stated; Krizhevsky (2009)",
            "torchvision.datasets.CIFAR10 under a data root",
            read_cifar10,
        ),
        DataSet(
            "cifar100",
            "small photographs, 60,000 images of 3 × 32 × 32, 100 classes, own test part",
            "none stated; Krizhevsky (2009)",
            "torchvision.datasets.CIFAR100 under a data root",
            read_cifar100,
        ),
        DataSet(
            EMNIST,
            "handwritten digits and letters, balanced, 131,600 images of 1 × 28 × 28, 47 classes, own test part",
            "none stated; Cohen and others (2017), out of NIST Special Database 19",
            "torchvision.datasets.EMNIST under a data root",
            read_emnist,
        ),
    )
}


def known() -> tuple[DataSet, ...]:
    """All published sets that can be named."""
    return tuple(_SETS.values())


def example_study(name: str) -> Path:
    """A study file for a published set, as it is installed.

    Raises:
        Misconfigured: there is no such set.
    """
    _named(name)
    if name == HEART:
        return study_path()
    return Path(str(files("secureproto.simulation").joinpath("studies", f"{name}.toml")))


def load_pool(data: Sequence[str], study: StudyFile, *, options: SourceOptions, root: Path | None) -> Pool:
    """The records of `data`, encoded by the study. Parameters and errors are those of `read`."""
    return read(data, study, options=options, root=root).pool


def read(data: Sequence[str], study: StudyFile, *, options: SourceOptions, root: Path | None) -> Reading:
    """The records of one published set, or of files of one kind (each a site, where they are several), and what took
    no part. `root`: the folder of the published sets that no package brings.

    Raises:
        Misconfigured: no such name or file, files absent or damaged, data that do not fit the study or the options.
    """
    if not data:
        raise Misconfigured("data: none named", hint=_names())
    if all(name not in _SETS and is_path(name) for name in data):
        if root is not None:
            raise Misconfigured("--data-root: is for built-in sets, these are your own files", hint="leave it out")
        return read_files([Path(name) for name in data], study, options)
    chosen = [_named(name) for name in data if name in _SETS or not is_path(name)]
    if len(data) > 1:
        raise Misconfigured(
            f"data: {chosen[0].name} together with others", hint="allowed: one published set, or files of your own"
        )
    if options != SourceOptions():
        raise Misconfigured(
            f"data: {chosen[0].name} takes no columns of yours", hint="leave out the options of your own files"
        )
    return chosen[0].read(study, root)


def _named(name: str) -> DataSet:
    if name not in _SETS:
        close = get_close_matches(name, _SETS, n=1)
        raise Misconfigured(f"no data set {name!r}", hint=f"did you mean {close[0]}?" if close else _names())
    return _SETS[name]


def _names() -> str:
    return f"one of: {', '.join(_SETS)}; or paths of .csv or .npz files or of folders of images"
