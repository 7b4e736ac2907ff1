"""Ditto: FedAvg's model for all, and beside it a personal model of each site that is held near it.

Source: Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
Algorithm 1. Site k uses v_k, which minimises

    h_k(v_k; w) = F_k(v_k) + λ/2 · ‖v_k − w‖²

In a round it makes one training of w_k from w_t for the server and one of v_k with w_t as anchor, each of the
study's local epochs; neither looks at what the other ends with, so their order is free. The global solver is FedAvg,
so w_{t+1} = w_t + Σ_k (n_k / n) (w_k − w_t).

Where the authors' code (TensorFlow) differs: it draws sites by n_k and then weighs them alike; its v_k starts as w_0,
here as the model that the site received first, which differs where a round takes a share of the sites; its v_k and
w_k take each batch in turn by plain SGD, here each has its own order of records, and the study's momentum and weight
decay. Its λ for Fashion-MNIST is 1; it can also choose a λ for each site, here all have one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from secureproto.learning.arrays import load_arrays, to_arrays
from secureproto.learning.model import Model
from secureproto.learning.training import Plan, Pull, train
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.local_part import draws, head_predictor, plain_loss, train_part, with_model
from secureproto.simulation.method import Predictor, Sent, Update, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import MAX_NUMBER


@dataclass(frozen=True)
class Ditto(FedAvg):
    """A Method. `shared` is w_t; `kept` is v_k, which never leaves its site. `lam` is λ; 0 is own data only.

    Raises:
        ValueError: `lam` is negative or not finite.
    """

    lam: float = 1.0
    title: ClassVar[str] = "Ditto"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {"lam": (0.1, 0.5, 1.0, 2.0)}

    def __post_init__(self) -> None:
        if not 0 <= self.lam <= MAX_NUMBER:
            raise ValueError("lam is a number from 0 on, up to 1e38")

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """v_k."""
        return with_model(model, visit.kept or visit.shared)

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """w_k from w_t, as in FedAvg, is sent; then v_k ← v_k − η (∇F_k(v_k) + λ (v_k − w_t)), which is kept."""
        load_arrays(model, visit.shared)
        common = train_part(model, data, visit, study=self.study)
        sent = Sent(to_arrays(model), len(data.train))
        self.use(model, data, visit)
        plan = Plan(self.study.training, plain_loss(model), pull=Pull(self.lam, visit.shared))
        own = train(model, data.train, plan=plan, generator=draws(self.study, visit, "personal"))
        summary = replace(own, steps=common.steps + own.steps)
        return Update(sent, head_predictor(model), to_arrays(model), summary)
