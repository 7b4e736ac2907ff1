"""FedProx: FedAvg whose sites are held near the model they received.

Source: Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks", MLSys 2020,
section 3.2 and Algorithm 2. Site k minimises, inexactly by the study's local epochs of SGD,

    h_k(w; w_t) = F_k(w) + μ/2 · ‖w − w_t‖²

The paper draws site k with probability n_k / n and takes the plain mean; here sites are drawn evenly and the mean is
weighted by n_k / n, as in the authors' code and for every algorithm of a comparison, so that all train the same sites
in a round. Sites that do less of the work than others (the paper's stragglers) are not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from secureproto.learning.arrays import to_arrays
from secureproto.learning.model import Model
from secureproto.learning.training import Pull
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.local_part import head_predictor, train_part
from secureproto.simulation.method import Sent, Update, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import MAX_NUMBER


@dataclass(frozen=True)
class FedProx(FedAvg):
    """A Method: FedAvg but for the loss. `mu` is μ; 0 is FedAvg to the last bit.

    Raises:
        ValueError: `mu` is negative or not finite.
    """

    mu: float = 0.01
    title: ClassVar[str] = "FedProx"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {"mu": (0.001, 0.01, 0.1, 1.0)}

    def __post_init__(self) -> None:
        if not 0 <= self.mu <= MAX_NUMBER:
            raise ValueError("mu is a number from 0 on, up to 1e38")

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """w_{t+1}^k ≈ argmin_w h_k(w; w_t), from w_t."""
        self.use(model, data, visit)
        pull = Pull(self.mu, visit.shared)
        summary = train_part(model, data, visit, study=self.study, pull=pull)
        return Update(Sent(to_arrays(model), len(data.train)), head_predictor(model), summary=summary)
