"""FedRep: in each round a site fits its head to the common representation, then takes a step with the representation.

Source: Collins, Hassani, Mokhtari, Shakkottai, "Exploiting Shared Representations for Personalized Federated
Learning", ICML 2021, Algorithm 1; and the published code:

    1. The server sends φ_t, the representation (the study's extractor).
    2. Site i makes τ updates of its head h_i with φ_t fixed. Here `head_epochs` over its records, ten by default as
       in the authors' experiments.
    3. It updates φ with h_i fixed, once in Algorithm 1. Here the study's local epochs, as every algorithm of a
       comparison has them, beside those of the head: this method makes more steps a round than others. The authors'
       experiments have one or five.
    4. The server averages the φ_i. Algorithm 1 and the published code for pictures take the plain mean, the code for
       text weighs by records; here it is weighted by records, as for every algorithm of a comparison.

The head stays at its site, and begins as the study's first. One learning rate for both, as there; each of the two
trainings has an optimizer of its own, where the published code has one for both. Read as received, a site has the new
φ and its own head, as there; the published code fits the head anew after the last round, here a site's local training
moves φ too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from secureproto.learning.model import Model
from secureproto.learning.training import TrainingSummary
from secureproto.simulation.baselines.fedper import FedPer
from secureproto.simulation.baselines.local_part import plain_loss
from secureproto.simulation.baselines.parts import head_then_body, of_head
from secureproto.simulation.method import Visit
from secureproto.simulation.population import SiteData


@dataclass(frozen=True)
class FedRep(FedPer):
    """A Method: what is sent and kept is as in FedPer; head and extractor are trained one after the other.

    Raises:
        ValueError: `head_epochs` under 1.
    """

    head_epochs: int = 10
    title: ClassVar[str] = "FedRep"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {"head_epochs": (1, 5, 10)}

    def __post_init__(self) -> None:
        if self.head_epochs < 1:
            raise ValueError("head_epochs is a whole number from 1 on")

    def _local(self, model: Model, data: SiteData, visit: Visit) -> TrainingSummary:
        """2. h_i with φ_t fixed; 3. φ with h_i fixed."""
        head = of_head(self.study, self.head_epochs)
        return head_then_body(model, data, visit, study=self.study, head=head, loss=plain_loss(model))
