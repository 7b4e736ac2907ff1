"""FedProto: sites exchange class prototypes and nothing of their models.

Source: Tan, Long, Liu, Zhou, Lu, Jiang, Zhang, "FedProto: Federated Prototype Learning across Heterogeneous
Clients", AAAI 2022, Algorithm 1 and eq. 6 to 8.

    1. Site i trains its own model on L = L_S + λ · L_R (eq. 7): cross entropy, and the distance to the global
       prototypes. L_R is the mean over records and embedding entries of (f_i(x) − C̄^(y))², as the authors' code has
       it (eq. 8 sums the distances of the class means); a class without a global prototype adds nothing.
    2. It sends C_i^(j), the mean embedding of each class j it holds, after training (as sum and count; the authors'
       code takes the mean over the steps of the last epoch).
    3. The server makes C̄^(j) of them (eq. 6) and sends those.

Models are never averaged. Inference: the paper writes it by the nearest prototype, the authors' code reports that and
the head's; the head is the default here, as it is what all other methods infer by. As in that code, the nearest is
sought among the global prototypes of the classes that the site itself holds.

Eq. 6 is printed as C̄^(j) = 1/|N_j| · Σ_{i ∈ N_j} (|D_ij| / N_j) · C_i^(j), with N_j on the right the number of
records of class j at all sites. The weights |D_ij| / N_j sum to 1 already: with 1/|N_j| before them a global
prototype would be that many times too short, and L_R would draw every embedding to zero. So the factor is left out,
and C̄^(j) = Σ_i (|D_ij| / N_j) · C_i^(j), the mean over all records. (The authors' code leaves out the weights in
place of the factor; the two are one where sites hold equally many records of a class.)

All sites begin with the study's first weights, where the authors' code gives each its own: embeddings that are alike
from the start can only help this method. A class that none of a round's participants holds keeps the global
prototype it had.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from secureproto.aggregation.prototypes import ABSENT, GlobalPrototypes, combine
from secureproto.learning.arrays import to_arrays
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.inference import outputs
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.learning.prototypes import class_sums
from secureproto.learning.training import Diverged, Plan, train
from secureproto.simulation.baselines.local_part import draws, head_predictor, nobody, with_model
from secureproto.simulation.method import Combined, Predictor, Sent, Update, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import MAX_NUMBER, StudyFile
from secureproto.wire.layouts import PROTOTYPE_AGE, PROTOTYPES

HEAD, PROTOTYPE = "head", "prototype"


@dataclass(frozen=True)
class FedProto:
    """A Method. `shared` are the global prototypes; `personal` the first weights, until a site has trained; `kept`
    its own whole model. `lam` is λ (the authors' runs: 1 for MNIST and FEMNIST, 0.1 for CIFAR-10). `inference`: by
    the site's `head`, or by the nearest global `prototype` of its classes; by the head where none of them has one.

    Raises:
        ValueError: `lam` is negative or not finite, or another `inference`.
    """

    study: StudyFile
    lam: float = 1.0
    inference: str = HEAD
    title: ClassVar[str] = "FedProto"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {"lam": (0.1, 1.0, 4.0), "inference": (HEAD, PROTOTYPE)}

    def __post_init__(self) -> None:
        if not 0 <= self.lam <= MAX_NUMBER:
            raise ValueError("lam is a number from 0 on, up to 1e38")
        if self.inference not in (HEAD, PROTOTYPE):
            raise ValueError(f"inference is {HEAD} or {PROTOTYPE}")

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """No class has a global prototype; every site has the first weights."""
        return _published(nobody(model)), to_arrays(model)

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """The site's own model."""
        with_model(model, visit.kept or visit.personal)
        return self._predictor(model, data, _prototypes(visit.shared))

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """1. and 2."""
        self.use(model, data, visit)
        prototypes = _prototypes(visit.shared)
        plan = Plan(self.study.training, PrototypeLoss(prototypes, self.lam))
        summary = train(model, data.train, plan=plan, generator=draws(self.study, visit))
        sent = Sent({PROTOTYPES: class_sums(model, data.train, model.classes)}, len(data.train))
        return Update(sent, self._predictor(model, data, prototypes), to_arrays(model), summary)

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """3. Only the sum over the sites is held: Σ_i s_ij / Σ_i n_ij asks for no more."""
        total = np.zeros((1, len(shared[PROTOTYPES]), shared[PROTOTYPES].shape[1] + 1))
        for _, sent in updates:
            total += sent.arrays[PROTOTYPES]
        return Combined(_published(combine(total, _prototypes(shared), weighting="samples", min_holders=1)))

    def _predictor(self, model: Model, data: SiteData, prototypes: GlobalPrototypes) -> Predictor:
        held = np.isin(np.arange(len(prototypes.age)), data.train.y)
        own = GlobalPrototypes(prototypes.values, np.where(held, prototypes.age, ABSENT))
        if self.inference == HEAD or not own.present.any():
            return head_predictor(model)
        return partial(nearest_prototype, model, own)


def nearest_prototype(model: Model, prototypes: GlobalPrototypes, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Probabilities (n, C) whose largest is at ŷ = argmin_j ‖f(x) − C̄^(j)‖: the softmax of −‖f(x) − C̄^(j)‖².

    A class without a prototype has probability 0; at least one class has one.

    Raises:
        Diverged: an embedding is not finite.
    """
    present = torch.from_numpy(prototypes.present)
    values = torch.from_numpy(prototypes.values)
    found = [np.empty((0, len(values)))]
    for _, _, embeddings in outputs(model, x):
        if not bool(torch.isfinite(embeddings).all()):
            raise Diverged("an embedding")
        # the plain sum of squares: through a product of matrices, near distances lose their digits
        distances = torch.cdist(embeddings.double(), values, compute_mode="donot_use_mm_for_euclid_dist").square()
        found.append(torch.softmax((-distances).masked_fill(~present, -torch.inf), dim=1).numpy())
    return np.concatenate(found)


def _published(prototypes: GlobalPrototypes) -> ArrayMap:
    return {PROTOTYPES: prototypes.values, PROTOTYPE_AGE: prototypes.age}


def _prototypes(shared: ArrayMap) -> GlobalPrototypes:
    return GlobalPrototypes(shared[PROTOTYPES], shared[PROTOTYPE_AGE])
