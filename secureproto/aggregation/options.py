"""What of a study decides the aggregation, as one frozen value.

Invariant: a combination that has no meaning cannot be made. The linear form computes `row_sum` without a bound on
shares and nothing else (see `heads`).
"""

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from secureproto.aggregation.prototypes import Weighting
from secureproto.study.schema import DEFAULT_EVIDENCE_SCALE, StudyFile

Representation = Literal["presence", "prior"]
Normalisation = Literal["row_sum", "power", "softmax", "evidence"]
Form = Literal["auto", "matrix", "linear"]


@dataclass(frozen=True)
class Options:
    """Prototypes (`weighting`, `min_holders`), relation (the rest up to `max_peer_share`), form of the mixing.

    `power` counts with normalisation `power` only, `temperature` (τ) with `softmax` only, `evidence_scale` with
    `evidence` only. `max_peer_share` None: no
    bound. Meanings: METHOD "Server side"; `relation.cap_peer_share` for the bound.

    Raises:
        ValueError: an impossible number or combination (a study file is refused before it comes here).
    """

    weighting: Weighting = "samples"
    min_holders: int = 2
    representation: Representation = "prior"
    normalisation: Normalisation = "evidence"
    power: float = 1.0
    temperature: float = 1.0
    evidence_scale: float = DEFAULT_EVIDENCE_SCALE
    max_peer_share: float | None = None
    form: Form = "auto"

    def __post_init__(self) -> None:
        if self.min_holders < 1:
            raise ValueError("min_holders is at least 1")
        if not all(isfinite(n) and n > 0 for n in (self.power, self.temperature, self.evidence_scale)):
            raise ValueError("power, temperature and evidence_scale are finite and over 0")
        if self.max_peer_share is not None and not 0 < self.max_peer_share <= 1:
            raise ValueError("max_peer_share is over 0 and at most 1, or None")
        if self.form == "linear" and not self.allows_linear:
            raise ValueError("the linear form computes row_sum without max_peer_share, and nothing else")

    @property
    def allows_linear(self) -> bool:
        """Whether the linear form computes this relation, given representations without negative entries."""
        return self.normalisation == "row_sum" and self.max_peer_share is None


def aggregation_options(study: StudyFile) -> Options:
    """The options a study file asks for."""
    relation = study.relation
    return Options(
        weighting=study.prototypes.weighting,
        min_holders=study.prototypes.min_holders,
        representation=relation.representation,
        normalisation=relation.normalisation,
        power=1.0 if relation.power is None else relation.power,
        temperature=1.0 if relation.temperature is None else relation.temperature,
        evidence_scale=DEFAULT_EVIDENCE_SCALE if relation.evidence_scale is None else relation.evidence_scale,
        max_peer_share=relation.max_peer_share,
        form=relation.form,
    )
