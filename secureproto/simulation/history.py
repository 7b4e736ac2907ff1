"""What a run leaves behind: scores, losses and bytes of every site in every round, as one frozen record a round.

Record `number` = r holds the scores of version r as received (before round r) and after the local training of round
r, what that training measured, and the relation that round r's aggregation made. The last record has the number of
rounds as its number: its training is local only, nothing of it was sent.
"""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

RECEIVED, TUNED, CHOSEN = "received", "tuned", "chosen"  # the points at which a site's model is scored
TEST, VALIDATION = "test", "validation"  # the records it is scored on


def method_name(label: str) -> str:
    """The method of a label, be it one of several directories: DIRECTORY/fedprox:mu=0.1 → fedprox."""
    return label.rpartition("/")[2].partition(":")[0]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measured(_Frozen):
    """Scores on `n` records; `auc` None where under two classes occur (as `learning.evaluate.Scores`)."""

    accuracy: float
    balanced_accuracy: float
    auc: float | None
    n: int


class SiteRound(_Frozen):
    """One site in one round. `points[point][part]`: RECEIVED, TUNED, CHOSEN × TEST, VALIDATION; empty between
    evaluations. `bytes_sent` counts the arrays; `seconds` the training alone; `chosen` names what CHOSEN is."""

    points: Mapping[str, Mapping[str, Measured]] = {}
    chosen: str | None = None
    steps: int = 0
    cross_entropy: float | None = None
    alignment: float | None = None
    embedding_norm: float | None = None
    bytes_sent: int = 0
    seconds: float = 0.0


class RoundRecord(_Frozen):
    """One round. `relation`: rows and columns in the order of `sites`; kept up to 64 sites. `seconds`: all of it."""

    number: int
    sites: Mapping[str, SiteRound]
    relation: tuple[tuple[float, ...], ...] | None = None
    loss: float | None = None
    seconds: float = 0.0


class History(_Frozen):
    """One method with one seed. `failure`: why it was stopped (diverged), one line; `complete`: to the last round."""

    method: str
    title: str
    seed: int
    rounds: tuple[RoundRecord, ...]
    complete: bool
    failure: str | None = None
