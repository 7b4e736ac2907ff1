"""FedPer: the base layers are everybody's, the personalisation layers stay at their site.

Source: Arivazhagan, Aggarwal, Singh, Choudhary, "Federated Learning with Personalization Layers", 2019
(arXiv:1912.00818), the algorithms FedPer-Server and FedPer-Client. Base layers W_B are the study's extractor,
personalisation layers W_Pk its head (the paper's fewest; it has more of them too). Every head begins as the study's
first; the paper lets each site draw its own. The paper's variant whose sites tune the personalisation layers alone
after the last round is not here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from secureproto.learning.arrays import to_arrays
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.model import Model
from secureproto.learning.training import TrainingSummary
from secureproto.simulation.averaging import average
from secureproto.simulation.baselines.local_part import head_predictor, train_part, with_model
from secureproto.simulation.baselines.parts import extractor_of, head_of
from secureproto.simulation.method import Combined, Predictor, Sent, Update, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile


@dataclass(frozen=True)
class FedPer:
    """A Method. `shared` is W_B; `personal` the first head, until a site has trained; `kept` its own head W_Pk."""

    study: StudyFile
    title: ClassVar[str] = "FedPer"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {}

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """Initialise W_B^(0) and every W_Pk^(0)."""
        arrays = to_arrays(model)
        return extractor_of(arrays), head_of(arrays)

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """(W_B, W_Pk)."""
        return with_model(model, {**visit.shared, **(visit.kept or visit.personal)})

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """(W_B,k, W_Pk) ← SGD(W_B, W_Pk), both together; only W_B,k is sent."""
        self.use(model, data, visit)
        summary = self._local(model, data, visit)
        arrays = to_arrays(model)
        sent = Sent(extractor_of(arrays), len(data.train))
        return Update(sent, head_predictor(model), head_of(arrays), summary)

    def _local(self, model: Model, data: SiteData, visit: Visit) -> TrainingSummary:
        return train_part(model, data, visit, study=self.study)

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """W_B ← Σ_k γ_k W_B,k with γ_k = n_k / Σ n_k."""
        return Combined(average(shared, updates))
