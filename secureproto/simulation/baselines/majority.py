"""The majority class of a site's training labels, for everybody: what any model has to beat.

It is certain of that class for every record. So its AUC is 0.5, where test records are of two classes or more; its
balanced accuracy is one over the number of classes among them, or 0 where its own class is not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secureproto.learning.evaluate import majority_class
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.model import Model
from secureproto.simulation.method import Combined, Predictor, Sent, Update, Visit, unchanged
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile


@dataclass(frozen=True)
class Majority:
    """A Method without a model: nothing is trained, sent or kept."""

    study: StudyFile
    title: ClassVar[str] = "Majority class"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {}

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """Nothing."""
        return {}, {}

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """The most frequent class of the site's training labels, with certainty."""
        certain = np.eye(model.classes)[majority_class(data.train.y, model.classes)]

        def predictor(x: NDArray[np.float32]) -> NDArray[np.float64]:
            return np.tile(certain, (len(x), 1))

        return predictor

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """Nothing is trained."""
        return Update(Sent({}, len(data.train)), self.use(model, data, visit))

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """Nothing is combined."""
        return unchanged(shared, updates)
