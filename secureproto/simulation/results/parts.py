"""Results of several partitions side by side: each has its own ranks and comparisons, and none crosses over.

Invariant: every method of a comparison runs on the same partition. Scores on different partitions are of different
test records, so no best, no difference and no interval is taken across them; the mean over partitions is given for a
method that was scored on all of them, and is not ranked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from secureproto.simulation.history import History
from secureproto.simulation.results.reported import POINTS
from secureproto.simulation.results.summarise import best_methods
from secureproto.simulation.results.summary import OverSites, Summary
from secureproto.simulation.statistics import MEASURES, Measure

NOT_COMPARED = (
    "Scores of different partitions do not compare: their sites hold other test records. Best marks and differences "
    "are taken within a partition only."
)


@dataclass(frozen=True)
class Part:
    """What was found on one partition.

    `name` is short and unique among the parts; `heading` tells its options and the start of `digest`. `kind`: of the
    records and of how runs are made, the same where a mean over partitions means something.
    """

    name: str
    heading: str
    digest: str
    kind: str
    summary: Summary
    histories: tuple[History, ...] = ()


@dataclass(frozen=True)
class Across:
    """A method at a point by a measure on each partition, None where it has no score.

    `best`: names of the partitions on which it has the highest mean. `mean` over partitions: None where the method
    lacks one, or where the partitions are not of one kind.
    """

    method: str
    point: str
    measure: Measure
    by_part: Mapping[str, OverSites | None]
    best: tuple[str, ...]
    mean: float | None


def of_one_kind(parts: Sequence[Part]) -> bool:
    """Whether all partitions divide the same records, and the runs on them are of one study, rounds and choice."""
    return len({part.kind for part in parts}) == 1


def across(parts: Sequence[Part]) -> list[Across]:
    """Every method, in the order of its first part, at every point and by every measure that it has a score for."""
    labels = dict.fromkeys(method.label for part in parts for method in part.summary.methods)
    best = {part.name: best_methods(part.summary.methods) for part in parts}
    found = []
    for label in labels:
        for point in POINTS:
            for measure in MEASURES:
                scores = {part.name: _score(part.summary, label, point, measure) for part in parts}
                if any(scores.values()):
                    leads = tuple(name for name in scores if label in best[name].get((point, measure), ()))
                    mean = _mean(list(scores.values())) if of_one_kind(parts) else None
                    found.append(Across(label, point, measure, scores, leads, mean))
    return found


def _score(summary: Summary, label: str, point: str, measure: Measure) -> OverSites | None:
    found = next((method.points.get(point) for method in summary.methods if method.label == label), None)
    return None if found is None else found.measures.get(measure)


def _mean(scores: Sequence[OverSites | None]) -> float | None:
    known = [over.mean.mean for over in scores if over is not None]
    return fmean(known) if len(known) == len(scores) else None
