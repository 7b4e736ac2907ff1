"""Pooled data: one model trained where the records of all sites lie together. Not federated; a bound for what is.

It gets as many passes over all records as a site of the federation over its own, so what is compared is that the
records stay apart. Source: "pooled" in the tables of FLamby (Ogier du Terrail et al., NeurIPS 2022 Datasets and
Benchmarks).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secureproto.learning.arrays import Arrays, load_arrays, to_arrays
from secureproto.learning.dataset import Records
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.model import Model
from secureproto.learning.seeding import generator
from secureproto.learning.training import Plan, train
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.local_part import plain_loss
from secureproto.simulation.method import Combined, Sent, Update, Visit, unchanged
from secureproto.simulation.population import SiteData
from secureproto.study.schema import TrainingSection


@dataclass(frozen=True)
class Pooled(FedAvg):
    """A Method, and `method.Central`: FedAvg's common model, learned from all records. No site trains it further."""

    title: ClassVar[str] = "Pooled data (not federated)"

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """Nothing is trained at a site. Its records leave it, once."""
        records: Arrays = {"x": data.train.x, "y": data.train.y} if visit.round_number == 0 else {}
        return Update(Sent(records, len(data.train)), self.use(model, data, visit))

    def learn(self, model: Model, shared: ArrayMap, records: Sequence[Records], round_number: int) -> Combined:
        """The study's epochs over all records; of steps, those of all sites together."""
        load_arrays(model, shared)
        everything = Records(np.concatenate([one.x for one in records]), np.concatenate([one.y for one in records]))
        plan = Plan(self._training(len(records)), plain_loss(model))
        numbers = generator(self.study.model.seed, self.study.name, "pooled", round_number)
        train(model, everything, plan=plan, generator=numbers)
        return Combined(to_arrays(model))

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """Nothing is combined: `learn` makes the next version."""
        return unchanged(shared, updates)

    def _training(self, sites: int) -> TrainingSection:
        steps = self.study.training.local_steps
        return self.study.training.model_copy(update={"local_steps": None if steps is None else steps * sites})
