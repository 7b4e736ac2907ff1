"""FedAvg: one model for all, the mean of the sites' models weighted by their numbers of records.

Source: McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1. E is the study's local epochs, B its batch size, C its participation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from secureproto.learning.arrays import to_arrays
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.model import Model
from secureproto.simulation.averaging import average
from secureproto.simulation.baselines.local_part import head_predictor, train_part, with_model
from secureproto.simulation.method import Combined, Predictor, Sent, Update, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile


@dataclass(frozen=True)
class FedAvg:
    """A Method. `shared` is w_t, the whole model."""

    study: StudyFile
    title: ClassVar[str] = "FedAvg"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {}

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """Initialise w_0."""
        return to_arrays(model), {}

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """The common model."""
        return with_model(model, visit.shared)

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """ClientUpdate(k, w_t)."""
        self.use(model, data, visit)
        summary = train_part(model, data, visit, study=self.study)
        return Update(Sent(to_arrays(model), len(data.train)), head_predictor(model), summary=summary)

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """w_{t+1} = Σ_k (n_k / n) w_{t+1}^k over the participants."""
        return Combined(average(shared, updates))
