"""Prototype-aligned personalised federated learning: one extractor for all, a head for each site.

Source: the patent of Zhejiang University (Wang Yongxiang, Cai Zhengong, 2024), "A personalised federated learning
method based on prototype-aligned learning"; nearest published relatives: FedProto (Tan et al., AAAI 2022) for the
loss, FedPAC (Xu, Tong, Huang, ICLR 2023) for mixed heads. The method belongs to its owners (see NOTICE). The numbers
below are the steps of a round there.

Every step runs the code of the real federation: a site's part is `learning.exchange`, the server's is
`aggregation.round`. In a study with `[privacy]` they are what they are there under privacy (`learning.private.site`,
`aggregation.private_round`), but for the chance, which comes from the seed (`simulation.chance`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from secureproto.aggregation.noisy import noisy_options
from secureproto.aggregation.options import Options, aggregation_options
from secureproto.aggregation.private_round import PrivateRound
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.aggregation.round import RoundAccumulator
from secureproto.data.folds import Folding
from secureproto.data.holdout import KEY_BYTES
from secureproto.data.settings import FOLD_SHARE, LONGER
from secureproto.data.source import Loaded
from secureproto.governance.plan import Wish, calibrate
from secureproto.learning.architectures import ENDS_IN_RELU
from secureproto.learning.choice import Start, cross_fitted
from secureproto.learning.exchange import ArrayMap, Received, initial_arrays, receive, site_round
from secureproto.learning.model import Model
from secureproto.learning.private.site import private_site_round
from secureproto.simulation.averaging import layout_of, pieces
from secureproto.simulation.baselines.local_part import draws, head_predictor, with_model
from secureproto.simulation.chance import simulated_chance
from secureproto.simulation.method import Combined, Predictor, Sent, Update, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.privacy import MAX_EPSILON
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import PROTOTYPE_AGE, PROTOTYPES


@dataclass(frozen=True)
class ProtoAligned:
    """A Method. Its hyper-parameters are the study's own: `[relation]`, `[prototypes]`, and μ with its warm-up in
    `[training]`. `shared` and `personal` are the two parts of a published version.

    `privacy`: `on` is as the study's `[privacy]` says, `off` without it. `epsilon`: over 0 and up to MAX_EPSILON, in
    place of the section's noise and of its `max_epsilon_study`: the least noise with which all rounds of the study
    cost that much at its `max_delta`.

    Raises:
        ValueError: another word, an ε without a private study's training, or settings that `[privacy]` excludes.
        BudgetExhausted: no noise keeps that ε.
    """

    study: StudyFile
    privacy: str = "on"
    epsilon: float = 0.0
    title: ClassVar[str] = "Prototype-aligned (this project)"
    grid: ClassVar[Mapping[str, tuple[float | str, ...]]] = {"alignment_weight": (0.1, 1.0, 4.0)}

    def __post_init__(self) -> None:
        if self.privacy not in ("on", "off"):
            raise ValueError(f"privacy is on or off, not {self.privacy!r}")
        if not 0 <= self.epsilon <= MAX_EPSILON:
            raise ValueError(f"epsilon is over 0 and up to {MAX_EPSILON:g}, or 0 for the study's own noise")
        if self.privacy == "off" and self.epsilon:
            raise ValueError("epsilon and privacy=off cannot both be")
        if self.privacy == "off":
            object.__setattr__(self, "study", self.study.model_copy(update={"privacy": None}))
        elif self.epsilon:
            object.__setattr__(self, "study", _with_epsilon(self.study, self.epsilon))
        if self.study.privacy is not None:
            self.study.require_private()

    def begin(self, model: Model) -> tuple[ArrayMap, ArrayMap]:
        """1. One common head, and no class with a global prototype."""
        return initial_arrays(model)

    def use(self, model: Model, data: SiteData, visit: Visit) -> Predictor:
        """2. The extractor of all and the site's own mixed head."""
        receive(model, visit.shared, visit.personal)
        return head_predictor(model)

    def train(self, model: Model, data: SiteData, visit: Visit) -> Update:
        """3. and 4. Train both together, then a pass for class sums and counts. After the last round a site trains
        for itself: without noise, since nothing of it is sent."""
        received, order = Received(visit.round_number, visit.shared, visit.personal), draws(self.study, visit)
        if self.study.privacy is None or visit.round_number >= self.study.rounds.total:
            plain = site_round(model, data.train, study=self.study, received=received, generator=order)
            return Update(Sent(plain.arrays, len(data.train)), head_predictor(model), summary=plain.summary)
        chance = simulated_chance(self.study, site=visit.site, round_number=visit.round_number)
        done = private_site_round(
            model, data.train, study=self.study, received=received, generator=order, chance=chance
        )
        sent = Sent(done.arrays, len(data.train), visit.round_number)
        return Update(sent, head_predictor(model), summary=done.summary)

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
                options = _options(self.study, sent.round_number)
                accumulator = RoundAccumulator(schema, options, previous=previous, sites=sites)
            accumulator.accept(site, pieces(schema, sent.arrays))
        if accumulator is None:
            raise ValueError("a round without an upload has no result")
        result = accumulator.result()
        heads = {site: result.head_arrays(site) for site in sites}
        return Combined(result.shared_arrays(), heads, result.relation, result.loss)


def _options(study: StudyFile, round_number: int) -> Options | PrivateRound:
    """How the server aggregates a round."""
    if study.privacy is None:
        return aggregation_options(study)
    noisy = noisy_options(study, width=study.model.embedding_width, non_negative=study.model.name in ENDS_IN_RELU)
    return PrivateRound(noisy, study.privacy.prototypes.releases_in(round_number))


def _with_epsilon(study: StudyFile, epsilon: float) -> StudyFile:
    """The study with the noise at which all its rounds cost ε."""
    privacy = study.privacy
    if privacy is None or privacy.training is None:
        raise ValueError("epsilon needs a study with [privacy.training]")
    training, prototypes = privacy.training, privacy.prototypes
    wish = Wish(
        epsilon=epsilon,
        delta=privacy.max_delta,
        rounds=study.rounds.total,
        sample_rate=training.sample_rate,
        steps=training.steps,
        release_every=prototypes.release_every,
    )
    found = calibrate(wish)
    noise = {part: {"noise_multiplier": found.part(part).noise_multiplier} for part in ("training", "prototypes")}
    changed = privacy.model_copy(
        update={
            "max_epsilon_study": epsilon,
            "training": training.model_copy(update=noise["training"]),
            "prototypes": prototypes.model_copy(update=noise["prototypes"]),
        }
    )
    return study.model_copy(update={"privacy": changed})
