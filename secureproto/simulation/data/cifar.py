"""CIFAR-10 and CIFAR-100, through torchvision.

Their files are pickles, and unpickling runs what a file says. That is acceptable here and at no site (there
`secureproto.data` cannot name these sets): a simulation runs on a researcher's own machine, over files that the
researcher put there, and torchvision compares the MD5 of each file of records with the published one before it opens
any. It never downloads here: what is absent is named.

Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from secureproto.errors import Misconfigured
from secureproto.simulation.data.classes import Labelled, byte_images
from secureproto.simulation.data.reading import Reading
from secureproto.study.schema import StudyFile


def read_cifar10(study: StudyFile, root: Path | None) -> Reading:
    """50,000 and, as its test part, 10,000 colour images of 32 × 32, ten classes.

    Raises:
        Misconfigured: the files are absent or not the published ones, or the study has other records or classes.
    """
    return _read("cifar10", "CIFAR10", 10, study, root)


def read_cifar100(study: StudyFile, root: Path | None) -> Reading:
    """50,000 and, as its test part, 10,000 colour images of 32 × 32, a hundred classes. Raises as `read_cifar10`."""
    return _read("cifar100", "CIFAR100", 100, study, root)


def _read(name: str, kind: str, classes: int, study: StudyFile, root: Path | None) -> Reading:
    try:
        from torchvision import datasets  # here: it loads torch, and only these two sets need it
    except ImportError:
        raise Misconfigured(f"{name}: is read with torchvision, which is not installed", hint="install it") from None
    dataset = getattr(datasets, kind)
    if root is None:
        raise _absent(name, dataset, "no data root is named")
    parts = []
    for train in (True, False):
        try:
            # NumPy 2.4.0 to 2.4.4 warn of how files so old write a flag; that is nothing a researcher could mend
            with warnings.catch_warnings(action="ignore", category=np.exceptions.VisibleDeprecationWarning):
                found = dataset(root, train=train, download=False)
        except (RuntimeError, OSError):
            raise _absent(name, dataset, f"not under {root / dataset.base_folder}, or not as published") from None
        images = np.moveaxis(np.asarray(found.data, dtype=np.uint8), 3, 1)
        parts.append(Labelled(images, np.asarray(found.targets, dtype=np.int64)))
    return Reading(byte_images(name, study, classes=classes, train=parts[0], test=parts[1]))


def _absent(name: str, dataset: Any, where: str) -> Misconfigured:
    files = [file for file, _ in (*dataset.train_list, *dataset.test_list)] + [dataset.meta["filename"]]
    return Misconfigured(
        f"{name}: its files ({', '.join(files)}): {where}",
        hint=f"torchvision.datasets.{dataset.__name__}(ROOT, download=True) puts them under a data root",
    )
