"""The study file as frozen models: every key, its type, its bounds and its default.

A study file fixes, before any data are opened, everything that must be alike at all sites. It is signed by the
operator, pinned by the sites, and its digest stands in every manifest; so nothing in it depends on a site.

Invariants: unknown keys are refused at every level; types are strict (no text taken for a number, no bool for
an integer); a combination that could not run is refused here and not in round 7. What each key means is said in
SPEC.md; `secureproto.study.file` turns a failed check into one line.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from secureproto.study.checks import (
    MODEL_NAMES,
    Section,
    is_factory,
    parse_duration,
    plain_name,
    plain_options,
    refuse,
    refuse_duplicates,
)
from secureproto.study.columns import CategoryFeature, Line, NumberFeature, Text
from secureproto.study.privacy import PrivacySection

MAX_CLASSES = 10_000  # C × (d+1) sums stay within a few hundred MB at d = 4096
MAX_FEATURES = 2_000  # 130 bytes each fill the limit of a study file
MAX_SIDE = 4096  # pixels; a record of 3 × 4096² float32 is 192 MiB already
MAX_ROUNDS = 1_000_000  # a round number is part of every manifest; far below 2^53
DEFAULT_EVIDENCE_SCALE = 0.8  # measured: decision 8
MAX_SITES = 100_000  # the coordinator keeps one row a site and round

Name = Annotated[str, AfterValidator(plain_name)]
Seconds = Annotated[int, BeforeValidator(parse_duration)]
MAX_NUMBER = 1e38  # weights are float32, which end at 3.4e38: torch refuses to multiply by more
Positive = Annotated[float, Field(gt=0, le=MAX_NUMBER)]
NotNegative = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Feature = Annotated[NumberFeature | CategoryFeature, Field(discriminator="kind")]


class ModelSection(Section):
    """The (extractor, head) pair: a name of ours, or `package.module:factory` that the site allows itself.

    `hidden`: widths of the layers before the embedding layer (mlp) or of the convolution blocks (cnn).
    `channels`, `height`, `width`: shape of an image record; 0 in a tabular study.
    """

    name: str
    embedding_width: Annotated[int, Field(ge=1, le=4096)]
    hidden: Annotated[tuple[Annotated[int, Field(ge=1, le=65_536)], ...], Field(strict=False, max_length=16)] = ()
    channels: Annotated[int, Field(ge=0, le=16)] = 0
    height: Annotated[int, Field(ge=0, le=MAX_SIDE)] = 0
    width: Annotated[int, Field(ge=0, le=MAX_SIDE)] = 0
    normalise_embedding: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    options: Annotated[dict[str, object], AfterValidator(plain_options)] = Field(default_factory=dict)

    @property
    def is_factory(self) -> bool:
        """Whether `name` is `package.module:factory` and not one of ours."""
        return is_factory(self.name)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.name not in MODEL_NAMES and not self.is_factory:
            allowed = ", ".join(MODEL_NAMES)
            raise refuse("name", f"{self.name!r} is not a model; allowed: {allowed}, or package.module:factory")
        if self.options and not self.is_factory:
            raise refuse("options", f"only a package.module:factory takes options, and this model is {self.name}")
        if self.hidden and self.name not in ("mlp", "cnn"):
            raise refuse("hidden", f"only mlp and cnn take hidden widths, and this model is {self.name}")
        return self


class LabelSection(Section):
    """Where the class of a record stands.

    `column`: the CSV column (tabular only). `values`: raw value → class; empty means that the raw value is the
    name of the class itself (or, for integer labels of arrays, its index in `classes`).
    """

    column: Text | None = None
    values: dict[Line, str] = Field(default_factory=dict)


class DataSection(Section):
    """What a record is, the same at every site.

    `missing_values`: the raw texts that mean "not known". `bad_record`: what a record that cannot be read does
    to a load: `stop` (the default for tabular data) or `drop`, counted and named (the default for images).
    """

    kind: Literal["tabular", "image"]
    features: Annotated[tuple[Feature, ...], Field(strict=False, max_length=MAX_FEATURES)] = ()
    label: LabelSection = LabelSection()
    missing_values: Annotated[tuple[Line, ...], Field(strict=False, max_length=16)] = ("",)
    bad_record: Literal["stop", "drop"] = "stop"

    @model_validator(mode="before")
    @classmethod
    def _default_by_kind(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("kind") == "image":
            return {"bad_record": "drop", **value}
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_duplicates("missing_values", self.missing_values)
        if self.kind == "image":
            if self.features:
                raise refuse("features", "an image study has no features; allowed: none")
            if self.label.column is not None:
                raise refuse("label.column", "an image study has no columns; allowed: only label.values")
            return self
        if not self.features:
            raise refuse("features", "missing; a tabular study needs at least one [[data.features]]")
        names = [feature.name for feature in self.features]
        refuse_duplicates("features", names)
        if self.label.column is None:
            raise refuse("label.column", "missing; a tabular study names the column that holds the class")
        if self.label.column in names:
            raise refuse("label.column", f"{self.label.column!r} is a feature too; the label must not be one")
        return self


class TrainingSection(Section):
    """Local training: SGD on cross entropy plus `alignment_weight` (μ) times the alignment term.

    Exactly one of `local_epochs` and `local_steps`. `alignment_warmup_rounds`: rounds over which μ grows
    linearly to its value; 0 is none.
    """

    local_epochs: Annotated[int, Field(ge=1, le=10_000)] | None = None
    local_steps: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)]
    learning_rate: Positive
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: NotNegative = 0.0
    alignment_weight: NotNegative = 1.0
    alignment_warmup_rounds: Annotated[int, Field(ge=0, le=MAX_ROUNDS)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.local_epochs is not None and self.local_steps is not None:
            raise refuse("local_steps", "given together with local_epochs; allowed: exactly one of the two")
        if self.local_epochs is None and self.local_steps is None:
            raise refuse("local_epochs", "missing; give exactly one of local_epochs and local_steps")
        return self


class PrototypeSection(Section):
    """How local class prototypes become global ones (METHOD, "Server side")."""

    weighting: Literal["samples", "uniform"] = "samples"
    min_holders: Annotated[int, Field(ge=1, le=MAX_SITES)] = 2


class RelationSection(Section):
    """How alike two sites are, and so how much of one's head the other gets (METHOD, "Relation matrix").

    The default suits itself to the sites (decision 8); the patent's literal reading is `presence` with `row_sum`.
    """

    representation: Literal["presence", "prior"] = "prior"
    normalisation: Literal["row_sum", "power", "softmax", "evidence"] = "evidence"
    power: Positive | None = None
    temperature: Positive | None = None
    evidence_scale: Positive | None = None
    max_peer_share: Fraction | None = None
    form: Literal["auto", "matrix", "linear"] = "auto"

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._belongs("power", self.power, "power")
        self._belongs("temperature", self.temperature, "softmax")
        if self.evidence_scale is not None and self.normalisation != "evidence":
            raise refuse("evidence_scale", f"only with normalisation evidence, and this one is {self.normalisation}")
        if self.form == "linear" and self.normalisation != "row_sum":
            raise refuse(
                "form", f"linear needs normalisation row_sum, not {self.normalisation}; allowed: auto, matrix"
            )
        if self.form == "linear" and self.max_peer_share is not None:
            raise refuse("max_peer_share", "the linear form has no shares to cap; allowed with form auto or matrix")
        return self

    def _belongs(self, key: str, value: float | None, normalisation: str) -> None:
        if self.normalisation == normalisation and value is None:
            raise refuse(key, f"missing; normalisation {normalisation} needs a number over 0")
        if self.normalisation != normalisation and value is not None:
            raise refuse(key, f"only with normalisation {normalisation}, and this one is {self.normalisation}")


class RoundsSection(Section):
    """How many rounds, and when one counts.

    `quorum`: accepted uploads a round needs. `participation`: share of the approved sites invited to a round.
    `deadline`: seconds from the opening of a round after which no upload is begun. `grace`: seconds after the
    deadline within which an upload that was begun may be finished; the round waits for those, and for no other.
    """

    total: Annotated[int, Field(ge=1, le=MAX_ROUNDS)]
    quorum: Annotated[int, Field(ge=1, le=MAX_SITES)]
    participation: Fraction = 1.0
    deadline: Seconds
    grace: Seconds = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.deadline == 0:
            raise refuse("deadline", '0 s; a round needs time, as in "10m"')
        if self.grace > self.deadline:
            raise refuse("grace", "longer than the deadline; allowed: up to rounds.deadline")
        return self


class StoppingSection(Section):
    """Stop early when the loss changes by at most `relative_tolerance` in each of `patience` rounds.

    The loss is the mean over the records of the round's sites. With this section each site reports its own, which is
    itself a release; without it none does.
    """

    relative_tolerance: Annotated[float, Field(gt=0, lt=1)]
    patience: Annotated[int, Field(ge=1, le=MAX_ROUNDS)]


class BoundsSection(Section):
    """What the server refuses of an upload; None is no bound.

    `max_update_norm`: L2 norm of the extractor's and head's change in a round. `max_embedding_norm`: L2 norm of
    a mean embedding. `max_upload_bytes`: sealed size.
    """

    max_update_norm: Positive | None = None
    max_embedding_norm: Positive | None = None
    max_upload_bytes: Annotated[int, Field(ge=1024, le=2**40)] = 2**30


class StudyFile(Section):
    """A study, checked. `classes` are in the order of their indices, everywhere."""

    name: Name
    title: Line = ""
    classes: Annotated[tuple[Text, ...], Field(strict=False, min_length=2, max_length=MAX_CLASSES)]
    model: ModelSection
    data: DataSection
    training: TrainingSection
    prototypes: PrototypeSection = PrototypeSection()
    relation: RelationSection = RelationSection()
    rounds: RoundsSection
    stopping: StoppingSection | None = None
    bounds: BoundsSection = BoundsSection()
    privacy: PrivacySection | None = None

    @property
    def reports_loss(self) -> bool:
        """Whether a site's upload carries its training loss."""
        return self.stopping is not None

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_duplicates("classes", self.classes)
        for raw, target in self.data.label.values.items():
            if target not in self.classes:
                raise refuse("data.label.values", f"{raw!r} goes to {target!r}; allowed: {', '.join(self.classes)}")
        self._check_shape()
        if self.stopping is not None and self.stopping.patience >= self.rounds.total:
            raise refuse("stopping.patience", f"never reached in {self.rounds.total} rounds; allowed: fewer")
        if self.training.alignment_warmup_rounds > self.rounds.total:
            raise refuse("training.alignment_warmup_rounds", "over rounds.total; allowed: up to rounds.total")
        if self.privacy is not None:
            self.require_private()
        return self

    def require_private(self) -> None:
        """Refuse what would leave without a charge, or make one record count for more than it is charged for.

        Raises:
            ValueError: naming the key, and what is allowed with `[privacy]`.
        """
        if not self.model.normalise_embedding:
            raise refuse("model.normalise_embedding", "false, which [privacy] excludes; allowed: true")
        if self.stopping is not None:
            raise refuse("stopping", "a loss would leave without noise; allowed with [privacy]: leave it out")
        if self.prototypes.weighting != "samples":
            raise refuse("prototypes.weighting", "with [privacy] noisy sums are divided once; allowed: samples")
        if self.relation.representation != "prior" or self.relation.form == "linear":
            raise refuse("relation", "with [privacy] heads are mixed by noisy sums; allowed: prior, no linear form")

    def _check_shape(self) -> None:
        shape = {"channels": self.model.channels, "height": self.model.height, "width": self.model.width}
        for key, size in shape.items():
            if self.data.kind == "image" and size == 0:
                raise refuse(f"model.{key}", "missing; an image study gives model.channels, height and width")
            if self.data.kind == "tabular" and size != 0:
                raise refuse(f"model.{key}", "only in an image study; allowed: leave it out")
        if self.data.kind == "tabular" and self.model.name in ("cnn", "resnet18"):
            raise refuse("model.name", f"{self.model.name} takes images; allowed: mlp, or package.module:factory")
