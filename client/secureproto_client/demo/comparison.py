"""What joining brings: the scores of each hospital by five ways to get a model, and one honest sentence on them.

The columns "majority class", "own data only" and "FedAvg" are computed in this process with the code that the sites
and the server run (`secureproto.simulation`); the two personalised columns are what the sites themselves measured
on their held-out rows, and told nobody but this machine's user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.baselines.majority import Majority
from secureproto.simulation.history import Measured as Scores
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.study.schema import StudyFile

MAJORITY, LOCAL, FEDAVG, RECEIVED, TUNED = (
    "majority class",
    "own data only",
    "FedAvg",
    "personalised, as received",
    "personalised, after local training",
)
METHODS = (MAJORITY, LOCAL, FEDAVG, RECEIVED, TUNED)
MEASURES = ("accuracy", "balanced_accuracy", "auc")

Measured = Mapping[str, float | None]


@dataclass(frozen=True)
class Comparison:
    """scores[hospital][method][measure]; rows[hospital] = number of held-out rows."""

    scores: Mapping[str, Mapping[str, Measured]]
    rows: Mapping[str, int]

    def mean(self, method: str, measure: str) -> float | None:
        """Mean over the hospitals of a method's measure; of those that have it (an AUC needs both classes)."""
        found = [by_method[method][measure] for by_method in self.scores.values()]
        known = [value for value in found if value is not None]
        return mean(known) if known else None

    def verdict(self) -> str:
        """Who gains by joining and who does not, in one sentence that no number in the table contradicts."""
        gains: list[tuple[str, int]] = []
        same: list[tuple[str, int]] = []
        losses: list[tuple[str, int]] = []
        for hospital, by_method in self.scores.items():
            alone, joined = by_method[LOCAL]["accuracy"] or 0.0, by_method[TUNED]["accuracy"] or 0.0
            patients = round((joined - alone) * self.rows[hospital])
            (gains if patients > 0 else losses if patients < 0 else same).append((hospital, patients))
        parts = [
            f"{name} classifies {count} more of its {self.rows[name]} test patients rightly" for name, count in gains
        ]
        parts += [f"{name} {-count} fewer of {self.rows[name]}" for name, count in losses]
        parts += [f"{name} as many as alone" for name, _ in same]
        means = ", ".join(
            f"{measure.replace('_', ' ')} {self.mean(LOCAL, measure) or 0:.3f} → {self.mean(TUNED, measure) or 0:.3f}"
            for measure in MEASURES
        )
        return (
            f"Who gains by joining (after local training, against own data only): {'; '.join(parts)}; "
            f"mean of the hospitals: {means}{self._where_fedavg_is_ahead()}; one run, so small differences are noise."
        )

    def _where_fedavg_is_ahead(self) -> str:
        means = {m: (self.mean(FEDAVG, m) or 0.0, self.mean(TUNED, m) or 0.0) for m in MEASURES}
        ahead = [f"{m.replace('_', ' ')} ({average:.3f})" for m, (average, own) in means.items() if average > own]
        return f"; FedAvg is ahead in {' and '.join(ahead)}" if ahead else ""


def compare(
    sites: Mapping[str, SiteData], study: StudyFile, personalised: Mapping[str, Mapping[str, Measured]]
) -> Comparison:
    """The comparison, from the sites' records (shapes as in `Records`) and their own scores.

    Args:
        personalised: by hospital, then RECEIVED and TUNED, the scores that the site kept.
    """
    given = GivenSites(sites)
    alone, average, most = (outcomes(method(study), given) for method in (Local, FedAvg, Majority))
    scores = {
        site: {
            MAJORITY: _measured(most[site].received),
            LOCAL: _measured(alone[site].received),
            FEDAVG: _measured(average[site].received),
            **personalised[site],
        }
        for site in sites
    }
    return Comparison(scores, {site: len(data.test) for site, data in sites.items()})


def _measured(scores: Scores) -> Measured:
    return {"accuracy": scores.accuracy, "balanced_accuracy": scores.balanced_accuracy, "auc": scores.auc}
