"""The `[privacy]` section: what a study releases of a site's data set, with how much noise, up to which budget.

Source: PRIVACY.md. Everything here is public and the same at every site: no value follows from the number of
records of a site, for a rate or a divisor taken from it would tell it. With the section, steps take the place of
epochs; without it every release is unprotected, its ε infinite.
"""

from math import sqrt
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from secureproto.study.checks import Section, refuse

MAX_EPSILON = 1e4  # e^ε has 4,343 digits there: it promises nothing long before
LEAST_RATE = 1e-9  # of sampling: a record is in a step once in a lifetime of studies
MAX_NOISE = 1e6  # a noise multiplier beyond it releases nothing but noise: a slip of the pen
Noise = Annotated[float, Field(gt=0, le=MAX_NOISE)]
Size = Annotated[float, Field(gt=0, le=1e6)]
TYPICAL_NORM = 0.75  # ‖mean embedding‖ over R that the weight of a count is reckoned with; public, never measured


class PrivateTraining(Section):
    """DP-SGD over extractor and head (Abadi et al. 2016, algorithm 1), one joint clip, one optimizer.

    `sample_rate`: the chance of each record to be in a step (Poisson sampling). `steps`: of one round.
    `expected_batch`: the divisor of every step's noisy sum; a public constant, not q times the private n.
    `gradients`: how norms per record are found; `hooks` is slower, and for layers that `ghost` cannot do.
    """

    noise_multiplier: Noise
    max_grad_norm: Size
    sample_rate: Annotated[float, Field(ge=LEAST_RATE, le=1)]
    steps: Annotated[int, Field(ge=1, le=1_000_000)]
    expected_batch: Annotated[float, Field(ge=1, le=1e6)]
    learning_rate: Annotated[float, Field(gt=0, le=1e6)]
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    gradients: Literal["ghost", "hooks"] = "ghost"


class PrivatePrototypes(Section):
    """The joint Gaussian release of the noisy sums and counts of all classes.

    `max_embedding_norm`: R, to which embeddings are clipped. `release_every`: rounds from one release to the next;
    the first is that of round 0. `moving_average`: weight of what was published before, in each class prototype.
    """

    noise_multiplier: Noise
    max_embedding_norm: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    release_every: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    moving_average: Annotated[float, Field(ge=0, lt=1)] = 0.9

    def releases_in(self, round_number: int) -> bool:
        """Whether round `round_number`, from 0 on, releases prototypes."""
        return round_number % self.release_every == 0

    def count_weight(self, width: int) -> float:
        """c, what a record adds to the column of counts: c² = R‖m‖/√d, with ‖m‖ = 0.75 R (PRIVACY, "Prototypes")."""
        radius = self.max_embedding_norm
        return sqrt(radius * TYPICAL_NORM * radius / sqrt(width))


class PrivacySection(Section):
    """Record-level (ε, δ)-differential privacy, add/remove adjacency, for each data set of a site.

    `max_epsilon_study`, `max_delta`: the most that this study may cost a record; a site sets its own bounds beside
    it, and the stricter value counts. Without `training`, extractor and head leave without protection.
    """

    unit: Literal["record", "patient"] = "record"
    adjacency: Literal["add_remove"] = "add_remove"
    max_epsilon_study: Annotated[float, Field(gt=0, le=MAX_EPSILON)]
    max_delta: Annotated[float, Field(gt=0, lt=1)]
    training: PrivateTraining | None = None
    prototypes: PrivatePrototypes

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.unit == "patient":
            raise refuse("unit", "patient is not built: a record must be a person's only one; allowed: record")
        return self
