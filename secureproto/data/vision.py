"""A published data set of torchvision as a data source; its own test part is the hold-out.

Nothing is fetched unless the settings ask for it. Only sets whose files hold plain bytes can be named
(`settings.TorchvisionSettings`).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secureproto.data.arrays import scaled
from secureproto.data.gathering import Gathering
from secureproto.data.holdout import Side
from secureproto.data.settings import TorchvisionSettings
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured, Unavailable
from secureproto.study.features import BadRecord, LabelSchema, record_shape
from secureproto.study.schema import StudyFile


class TorchvisionSource:
    """Reads the set called `settings.name` under `settings.root`. A DataSource."""

    def __init__(self, settings: TorchvisionSettings) -> None:
        self._settings = settings

    def load(self, study: StudyFile) -> Loaded:
        """Each image by itself; see `source.DataSource`."""
        labels, gathering = LabelSchema(study), Gathering(study, self._settings.name)
        shape = record_shape(study)
        for side in Side:
            for index, (image, label) in enumerate(self._images(side), start=1):
                if (1, *image.shape) != shape:
                    raise Misconfigured(
                        f"{self._settings.name}: images of {(1, *image.shape)}; the study has {shape}"
                    )
                try:
                    gathering.add(scaled(image[np.newaxis]), labels.index_of_integer(label), side)
                except BadRecord as error:
                    gathering.isolation.isolate(f"{side} record {index}", error)
        return gathering.loaded()

    def _images(self, side: Side) -> Iterator[tuple[NDArray[np.uint8], int]]:
        dataset = self._open(side)
        images = np.asarray(dataset.data, dtype=np.uint8)
        targets = np.asarray(dataset.targets, dtype=np.int64)
        return zip(images, targets.tolist(), strict=True)

    def _open(self, side: Side) -> Any:
        from torchvision import datasets  # here, for it loads torch, and only this source needs it

        kind = getattr(datasets, self._settings.name)
        root, train = self._settings.root, side is Side.TRAIN
        try:
            return kind(root, train=train, download=False)
        except (RuntimeError, OSError):
            if not self._settings.download:
                raise Misconfigured(
                    f"{self._settings.name}: not found under {root}",
                    hint="set data.download = true to fetch it, or put its files there",
                ) from None
        try:
            return kind(root, train=train, download=True)
        except (RuntimeError, OSError):
            raise Unavailable(
                f"{self._settings.name}: could not be fetched", hint="check the network, or put its files there"
            ) from None
