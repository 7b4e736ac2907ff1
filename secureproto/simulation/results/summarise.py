"""Making the summary of an experiment from the histories of its runs.

Invariants: only runs that ended count; a number is first taken over sites and then over seeds, so that one seed
weighs as much as another; what is not defined is left out and named.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from statistics import fmean, median, pstdev, stdev
from typing import NamedTuple

from secureproto.simulation.history import RECEIVED, TUNED, History
from secureproto.simulation.results.comparing import Points, of_best, to_reference, value
from secureproto.simulation.results.reported import (
    LAST,
    POINTS,
    Reported,
    Rule,
    Scored,
    check_rule,
    evaluated,
    reported,
)
from secureproto.simulation.results.summary import (
    AtPoint,
    Estimate,
    Failure,
    MethodSummary,
    OverSites,
    Summary,
    Target,
)
from secureproto.simulation.statistics import MEASURES, Measure, exact

_SEEDS_SHOWN = 5


def summarise(
    histories: Sequence[History],
    *,
    rule: Rule = LAST,
    reference: str | None = "local",
    target: float | None = None,
    redrawn: float | None = None,
) -> Summary:
    """The summary of histories of one partition, methods in the order in which they come.

    Args:
        reference: a label, or a method's name: then the first label of that method.
        target: an accuracy from 0 to 1.
        redrawn: n_test/n_train where each seed splits the records anew, else None.

    Raises:
        Misconfigured: as `check_rule`.
        ValueError: two histories of one method and seed.
    """
    check_rule(histories, rule)
    labels = tuple(dict.fromkeys(history.method for history in histories))
    by_label = {label: [history for history in histories if history.method == label] for label in labels}
    for label, runs in by_label.items():
        if len({history.seed for history in runs}) != len(runs):
            raise ValueError(f"two histories of {label} with one seed")
    ended = {label: [history for history in runs if history.complete] for label, runs in by_label.items()}
    found = {label: _reported(runs, rule) for label, runs in ended.items()}
    sites = max((len(record.sites) for history in histories for record in history.rounds), default=0)
    wanted = None if target is None else _Wanted(target, sites)
    methods = tuple(_method(by_label[label], ended[label], found[label], wanted) for label in labels)
    base = _pick(labels, reference)
    return Summary(
        rule=rule,
        reference=base,
        target=target,
        redrawn=redrawn,
        methods=methods,
        failures=tuple(_failure(history) for history in histories if not history.complete),
        to_reference=() if base is None else to_reference(found, base, POINTS, redrawn),
        of_best=of_best(found, best_methods(methods), redrawn),
    )


def best_methods(methods: Sequence[MethodSummary]) -> dict[tuple[str, Measure], tuple[str, ...]]:
    """The label with the highest mean over sites, by point and measure: all of equals, in their order. There is no
    best where one method alone was scored (only some choose, for one).

    A method that lacks a seed is not ranked: its mean is over other runs, maybe over other records. So where none of
    several has all seeds, there is no best. Nor is a bound.
    """
    best: dict[tuple[str, Measure], tuple[str, ...]] = {}
    methods = ranked(methods)
    for point in POINTS:
        for measure in MEASURES:
            means = {
                method.label: exact(method.points[point].measures[measure].mean.mean)
                for method in methods
                if point in method.points and measure in method.points[point].measures
            }
            if len(means) > 1:
                highest = max(means.values())
                best[point, measure] = tuple(label for label, mean in means.items() if mean == highest)
    return best


def ranked(methods: Sequence[MethodSummary]) -> list[MethodSummary]:
    """The methods among which there is a best."""
    lacking = _lacking_seeds(methods)
    return [method for method in methods if method.label not in lacking and not method.is_bound]


def unranked(methods: Sequence[MethodSummary]) -> str | None:
    """Which methods are not ranked, and why; None if all are that ended at all."""
    told = [
        f"{label} lacks {', '.join(map(str, seeds[:_SEEDS_SHOWN]))}{', …' if len(seeds) > _SEEDS_SHOWN else ''}"
        for label, seeds in _lacking_seeds(methods).items()
    ]
    return f"not ranked, for others have seeds that they lack: {'; '.join(told)}" if told else None


def _lacking_seeds(methods: Sequence[MethodSummary]) -> dict[str, list[int]]:
    """Seeds that some method ended with and this one did not, for those that ended with any."""
    methods = [method for method in methods if not method.is_bound]
    every = {seed for method in methods for seed in method.seeds}
    lacking = {method.label: sorted(every.difference(method.seeds)) for method in methods if method.seeds}
    return {label: seeds for label, seeds in lacking.items() if seeds}


def _pick(labels: Sequence[str], wanted: str | None) -> str | None:
    if wanted in labels:
        return wanted
    return next((label for label in labels if label.partition(":")[0] == wanted), None)


def _reported(runs: Sequence[History], rule: Rule) -> Points:
    """By point, then seed."""
    by_point = {
        point: {history.seed: found for history in runs if (found := reported(history, point, rule))}
        for point in POINTS
    }
    return {point: found for point, found in by_point.items() if found}


def _failure(history: History) -> Failure:
    numbers = [record.number for record in history.rounds]
    unfinished = "interrupted before its last round" if numbers else "asked for and not begun"
    reason = history.failure or unfinished
    return Failure(history.method, history.seed, max(numbers, default=None), reason)


class _Wanted(NamedTuple):
    """An accuracy to reach, as the mean over all `sites`."""

    accuracy: float
    sites: int


def _method(
    runs: Sequence[History], ended: Sequence[History], found: Points, wanted: _Wanted | None
) -> MethodSummary:
    choices = Counter(choice for by_seed in found.values() for run in by_seed.values() for choice in run.choices)
    return MethodSummary(
        label=runs[0].method,
        title=runs[0].title,
        seeds=tuple(sorted(history.seed for history in ended)),
        points={point: _at_point(by_seed) for point, by_seed in found.items()},
        bytes_sent=_if_any(_bytes_of_a_site(history) for history in ended),
        seconds=_if_any(sum(record.seconds for record in history.rounds[:-1]) for history in ended),
        choices=dict(sorted(choices.items())),
        target=None if wanted is None else _target(runs, wanted),
    )


def _at_point(by_seed: Mapping[int, Reported]) -> AtPoint:
    runs = [by_seed[seed].scores for seed in sorted(by_seed)]
    measures = {measure: over for measure in MEASURES if (over := _over_sites(runs, measure))}
    names = sorted({site for run in runs for site in run})
    return AtPoint(
        versions={seed: by_seed[seed].round_number for seed in sorted(by_seed)},
        measures=measures,
        pooled=_over_seeds([_pooled(run) for run in runs]),
        sites={site: _of_site(runs, site) for site in names},
        records={site: max(run[site].n for run in runs if site in run) for site in names},
    )


def _over_sites(runs: Sequence[Scored], measure: Measure) -> OverSites | None:
    """Over the sites that have the measure in every seed: a mean over others in each would be of no sites at all."""
    sites = {site for run in runs for site in run}
    missing = {site for site in sites for run in runs if site in run and value(run[site], measure) is None}
    known = [
        [found for site, at in run.items() if site not in missing and (found := value(at, measure)) is not None]
        for run in runs
    ]
    if not known or not all(known):
        return None
    mean, worst, spread = (_over_seeds([number(values) for values in known]) for number in (fmean, min, pstdev))
    return OverSites(mean, worst, spread, tuple(sorted(missing)), len(sites) - len(missing), len(sites))


def _of_site(runs: Sequence[Scored], site: str) -> dict[Measure, Estimate]:
    found = {
        measure: _if_any(known for run in runs if site in run if (known := value(run[site], measure)) is not None)
        for measure in MEASURES
    }
    return {measure: estimate for measure, estimate in found.items() if estimate is not None}


def _pooled(scores: Scored) -> float:
    return sum(at.accuracy * at.n for at in scores.values()) / sum(at.n for at in scores.values())


def _bytes_of_a_site(history: History) -> float:
    total: Counter[str] = Counter()
    for record in history.rounds:
        for site, at in record.sites.items():
            total[site] += at.bytes_sent
    return fmean(total.values()) if total else 0.0


def _target(runs: Sequence[History], wanted: _Wanted) -> Target:
    first = [_rounds_to(history, wanted) for history in runs]
    middle = median(first)
    return Target(middle if isfinite(middle) else None, sum(map(isfinite, first)), len(first))


def _rounds_to(history: History, wanted: _Wanted) -> float:
    """Where a round takes a share of the sites, a run that did not end has no version that all were scored on."""
    point = RECEIVED if any(evaluated(history, RECEIVED)) else TUNED
    for record, scores in evaluated(history, point):
        if len(scores) == wanted.sites and exact(fmean(at.accuracy for at in scores.values())) >= exact(
            wanted.accuracy
        ):
            return float(record.number)
    return inf


def _if_any(values: Iterable[float]) -> Estimate | None:
    known = list(values)
    return _over_seeds(known) if known else None


def _over_seeds(values: Sequence[float]) -> Estimate:
    return Estimate(fmean(values), stdev(values) if len(values) > 1 else None, len(values))
