"""FedPAC: features aligned to global centroids, and for each site the combination of all heads that suits it best.

Source: Xu, Tong, Huang, "Personalized Federated Learning with Feature Alignment and Classifier Collaboration", ICLR
2023, Algorithm 1; in the details the authors' published code, which is what is compared with below.

Site i, with the extractor θ, the global centroids c̄ and its head φ_i as received:

    1. Statistics of its records under the received θ: h_i (C, d), the class means times the class priors, and
       V_i = (1/n_i) (mean ‖f(x)‖² − ‖h_i‖²), the variance of that estimate.
    2. `head_epochs` of φ_i on cross entropy with `head_learning_rate`, θ frozen.
    3. The study's epochs of θ with its learning rate, φ_i frozen, on cross entropy + λ/d · mean ‖f(x) − c̄_y‖².
    4. It sends θ_i, φ_i, its class sums and counts under θ_i, and h_i and V_i.

The server:

    5. θ ← Σ (n_i / n) θ_i;   c̄_j ← Σ_i s_ij / Σ_i n_ij.
    6. For each site i, α_i = argmin Σ_jk α_j α_k Σ_c ⟨h_ic − h_jc, h_ic − h_kc⟩ + Σ_j α_j² V_j over the simplex,
       the squared bias and the variance of the combination; weights under 1e-3 are dropped.
    7. φ_i ← Σ_j α_ij φ_j.

Defaults are those of the published code: one epoch of the head with 0.1, whatever the extractor's learning rate (0.01
for Fashion-MNIST and EMNIST, 0.02 for CIFAR), and λ = 1.

Differences from it: a class without a global centroid adds nothing in step 3, and a class that none of a round's
participants holds keeps the centroid it had (there a round without a class cannot be aggregated); a programme that is
not definite loses its negative eigenvalues (there all under 0.01, whatever its scale). Momentum and weight decay are
the study's (there 0.5 and 5e-4 for every method).
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secureproto.aggregation.layout import F64, FlatLayout
from secureproto.aggregation.prototypes import GlobalPrototypes, combine
from secureproto.learning.dataset import Records
from secureproto.learning.exchange import ArrayMap, contribution, initial_arrays, receive
from secureproto.learning.inference import outputs
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.simulation.averaging import Average, layout_of
from secureproto.simulation.baselines.local_part import head_predictor
from secureproto.simulation.baselines.parts import extractor_of, head_of, head_then_body, of_head
from secureproto.simulation.baselines.simplex import Unsolved, minimise
from secureproto.simulation.method import Combined, Predictor, Sent, Update, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import MAX_NUMBER, StudyFile
from secureproto.wire.layouts import PROTOTYPE_AGE, PROTOTYPES

STATISTICS, VARIANCE = "statistics", "variance"  # what is sent as h_i (C, d) and V_i (1,)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FedPAC:
    """A Method. `shared` are θ and c̄, `personal` is φ_i. `lam` is λ.

    Raises:
        ValueError: `head_epochs` under 1, `head_learning_rate` not over 0, `lam` negative, or one that is not finite.
    """

    study: StudyFile
    head_epochs: int = 1
    head_learning_rate: float = 0.1
    lam: float = 1.0
    title: ClassVar[str] = "FedPAC"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {
        "head_learning_rate": (0.01, 0.1),
        "lam": (0.1, 1.0, 10.0),
    }

    def __post_init__(self) -> None:
        if self.head_epochs < 1:
            raise ValueError("head_epochs is a whole number from 1 on")
        if not 0 < self.head_learning_rate <= MAX_NUMBER:
            raise ValueError("head_learning_rate is a number over 0, up to 1e38")
        if not 0 <= self.lam <= MAX_NUMBER:
            raise ValueError("lam is a number from 0 on, up to 1e38")

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """One common head, and no class with a centroid."""
        return initial_arrays(model)

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """θ and the site's own combination of heads."""
        receive(model, visit.shared, visit.personal)
        return head_predictor(model)

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """1. to 4."""
        centroids = receive(model, visit.shared, visit.personal)
        means, variance = class_statistics(model, data.train)
        loss = PrototypeLoss(centroids, self.lam)
        head = of_head(self.study, self.head_epochs, self.head_learning_rate)
        summary = head_then_body(model, data, visit, study=self.study, head=head, loss=loss)
        arrays = contribution(model, data.train, loss=loss, reports_loss=False)
        arrays |= {STATISTICS: means, VARIANCE: np.array([variance])}
        return Update(Sent(arrays, len(data.train)), head_predictor(model), summary=summary)

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """5. to 7. Extractors and class sums are added as they come; heads and statistics are held."""
        previous = GlobalPrototypes(shared[PROTOTYPES], shared[PROTOTYPE_AGE])
        mean = Average(extractor_of(shared))
        total = np.zeros((1, previous.values.shape[0], previous.values.shape[1] + 1))
        held: list[ArrayMap] = []
        for site, sent in updates:
            mean.add(site, sent)
            total += sent.arrays[PROTOTYPES]
            held.append({**head_of(sent.arrays), **{name: sent.arrays[name] for name in (STATISTICS, VARIANCE)}})
        centroids = combine(total, previous, weighting="samples", min_holders=1)
        weights = collaboration(
            np.stack([own[STATISTICS] for own in held]), np.concatenate([own[VARIANCE] for own in held]), sites
        )
        layout = FlatLayout(layout_of(head_of(held[0])).tensors)
        heads = weights @ np.stack([layout.flatten(own) for own in held])
        personal = {site: layout.split(head) for site, head in zip(sites, heads, strict=True)}
        published = {PROTOTYPES: centroids.values, PROTOTYPE_AGE: centroids.age, **mean.result()}
        return Combined(published, personal, relation=weights)


def class_statistics(model: Model, data: Records) -> tuple[F64, float]:
    """h (C, d) and V of the records under `model`'s extractor.

    h_c = (n_c / n) · mean of class c: zeros for a class not held. One record's part in h is its embedding in the row
    of its class and zeros elsewhere; V is the trace of the covariance of that, over n.
    """
    means = np.zeros((model.classes, model.embedding_width))
    square = 0.0
    for rows, _, embeddings in outputs(model, data.x):
        values = embeddings.double().numpy()
        np.add.at(means, data.y[rows], values)
        square += float((values * values).sum())
    means /= len(data)
    spread = square / len(data) - float((means * means).sum())
    return means, max(spread, 0.0) / len(data)


def programmes(statistics: F64, variances: F64) -> Iterator[F64]:
    """The matrix P_i (m, m) of each site's programme, from h (m, C, d) and V (m,).

    P_i[j, k] = Σ_c ⟨h_ic − h_jc, h_ic − h_kc⟩, and V_j more on the diagonal. All come from one Gram matrix of the
    h_i about their mean: it cancels in the differences, and no digits are lost to it.
    """
    flat = statistics.reshape(len(statistics), -1)
    centred = flat - flat.mean(axis=0)
    gram = centred @ centred.T
    for own, row in enumerate(gram):
        yield row[own] - row[:, None] - row[None, :] + gram + np.diag(variances)


def collaboration(statistics: F64, variances: F64, sites: Sequence[str]) -> F64:
    """The weights α (m, m): row i is how much of each site's head site i gets.

    A programme that cannot be solved leaves the site its own head, and a warning in the log.
    """
    weights = np.eye(len(sites))
    for own, matrix in enumerate(programmes(statistics, variances)):
        try:
            weights[own] = minimise(matrix)
        except Unsolved as error:
            log.warning("FedPAC: site %s keeps its own head, no weights were found: %s", sites[own], error)
    return weights
