"""Own data only: each site trains the study's model on its own records, and nothing is exchanged.

It gets as many local trainings as a site of the federation, so what is compared is the joining alone.
Source: "Local" in the tables of FedProto (Tan et al., AAAI 2022) and in the code of FedPAC (Xu, Tong, Huang, ICLR
2023).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from secureproto.learning.arrays import to_arrays
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.model import Model
from secureproto.simulation.baselines.local_part import head_predictor, train_part, with_model
from secureproto.simulation.method import Combined, Predictor, Sent, Update, Visit, unchanged
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile


@dataclass(frozen=True)
class Local:
    """A Method. `shared` is the first weights, always; what a site trains it keeps."""

    study: StudyFile
    title: ClassVar[str] = "Own data only"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {}

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """The study's first weights."""
        return to_arrays(model), {}

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """The site's own model."""
        return with_model(model, visit.kept or visit.shared)

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """The study's epochs on the site's own records."""
        self.use(model, data, visit)
        summary = train_part(model, data, visit, study=self.study)
        return Update(Sent({}, len(data.train)), head_predictor(model), to_arrays(model), summary)

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """Nothing is combined."""
        return unchanged(shared, updates)
