"""Prototype-aligned personalised federated learning: one extractor for all, a head for each site.

Source: the patent of Zhejiang University (Wang Yongxiang, Cai Zhengong, 2024), "A personalised federated learning
method based on prototype-aligned learning"; nearest published relatives: FedProto (Tan et al., AAAI 2022) for the
loss, FedPAC (Xu, Tong, Huang, ICLR 2023) for mixed heads. The method belongs to its owners (see NOTICE). The numbers
below are the steps of a round there.

Every step runs the code of the real federation: a site's part is `learning.exchange`, the server's is
`aggregation.round`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from secureproto.aggregation.options import aggregation_options
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.aggregation.round import RoundAccumulator
from secureproto.data.folds import Folding
from secureproto.data.holdout import KEY_BYTES
from secureproto.data.settings import FOLD_SHARE, LONGER
from secureproto.data.source import Loaded
from secureproto.learning.choice import Start, cross_fitted
from secureproto.learning.exchange import ArrayMap, Received, initial_arrays, receive, site_round
from secureproto.learning.model import Model
from secureproto.simulation.averaging import layout_of, pieces
from secureproto.simulation.baselines.local_part import draws, head_predictor, with_model
from secureproto.simulation.method import Combined, Predictor, Sent, Update, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import PROTOTYPE_AGE, PROTOTYPES


@dataclass(frozen=True)
class ProtoAligned:
    """A Method. Its hyper-parameters are the study's own: `[relation]`, `[prototypes]`, and μ with its warm-up in
    `[training]`. `shared` and `personal` are the two parts of a published version."""

    study: StudyFile
    title: ClassVar[str] = "Prototype-aligned (this project)"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {"alignment_weight": (0.1, 1.0, 4.0)}

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """1. One common head, and no class with a global prototype."""
        return initial_arrays(model)

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """2. The extractor of all and the site's own mixed head."""
        receive(model, visit.shared, visit.personal)
        return head_predictor(model)

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """3. and 4. Train both together, then a pass for class sums and counts."""
        received = Received(visit.round_number, visit.shared, visit.personal)
        done = site_round(model, data.train, study=self.study, received=received, generator=draws(self.study, visit))
        return Update(Sent(done.arrays, len(data.train)), head_predictor(model), summary=done.summary)

    def choose(self, model: Model, data: SiteData, visit: Visit) -> tuple[str, Predictor]:
        """After the last round: one of `learning.choice`'s candidates, by log loss on folds of the training records,
        as the client does it. It is used and never sent."""
        received = Received(visit.round_number, visit.shared, visit.personal)
        start = Start(self.study, received, visit.site, longer=LONGER)
        key = self.study.model.seed.to_bytes(KEY_BYTES, "big")
        folds = Folding(FOLD_SHARE, key).of(Loaded(data.train, data.test))
        found = cross_fitted(model, start, records=data.train, folds=folds)
        return found.kind, with_model(model, found.weights)

    def combine(self, shared: ArrayMap, sites: Sequence[str], updates: Iterable[tuple[str, Sent]]) -> Combined:
        """5. Aggregate and publish."""
        previous = GlobalPrototypes(shared[PROTOTYPES], shared[PROTOTYPE_AGE])
        accumulator: RoundAccumulator | None = None
        for site, sent in updates:
            schema = layout_of(sent.arrays)
            if accumulator is None:
                options = aggregation_options(self.study)
                accumulator = RoundAccumulator(schema, options, previous=previous, sites=sites)
            accumulator.accept(site, pieces(schema, sent.arrays))
        if accumulator is None:
            raise ValueError("a round without an upload has no result")
        result = accumulator.result()
        heads = {site: result.head_arrays(site) for site in sites}
        return Combined(result.shared_arrays(), heads, result.relation, result.loss)
