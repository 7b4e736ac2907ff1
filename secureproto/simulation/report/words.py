"""The sentences of the page: what came out, how it was counted, and what failed.

Invariant: no sentence says more than the numbers: a lead whose interval holds zero is called what chance could give.
"""

from collections.abc import Sequence
from typing import Final

from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED
from secureproto.simulation.report.sites import tally
from secureproto.simulation.results import VALIDATED, Comparison, MethodSummary, Summary
from secureproto.simulation.results.summarise import best_methods, unranked

POINT_NAMES: Final = {RECEIVED: "as received", TUNED: "after local training", CHOSEN: "as chosen"}
_NAMES_SHOWN = 5


def findings(summary: Summary) -> list[str]:
    """What came out, in a few sentences."""
    best = best_methods(summary.methods)
    by_label = {method.label: method for method in summary.methods}
    lacking = unranked(summary.methods)
    note = [f"{lacking[0].upper()}{lacking[1:]}."] if lacking else []
    if (TUNED, "accuracy") not in best:
        return note or ["No run ended with scores: there is nothing to report."]
    leader = by_label[best[TUNED, "accuracy"]]
    found = [_lead(leader, summary)]
    comparison = _against_reference(summary, leader.label)
    if comparison is not None:
        found.append(_difference(comparison))
    others = {
        other: [
            f"{measure_name(key[1])} {POINT_NAMES[key[0]]}" for key in best if best[key] == other and key[0] != CHOSEN
        ]
        for other in best.values()
        if other != leader.label
    }
    parts = [f"{other} ({_listed(firsts)})" for other, firsts in others.items() if firsts]
    if parts:
        found.append(f"Others are first by other measures: {'; '.join(parts)}.")
    found += note
    if len(summary.methods) > 1:
        found.append("The first of several is picked by the very numbers that are shown, so its lead is flattered.")
    return found


def counting(summary: Summary) -> list[str]:
    """How numbers were made: which round, over which seeds, what an interval covers."""
    if summary.rule == VALIDATED:
        rule = (
            "Reported round: for each method and seed the version with the best mean validation accuracy at that "
            "point; test records decide nothing."
        )
    else:
        rule = "Reported round: the last one."
    runs = max((len(method.seeds) for method in summary.methods), default=0)
    if runs < 2:
        return [rule, "One seed: there is nothing to tell chance from, so no interval is given."]
    if summary.redrawn is not None:
        seeds = (
            f"Each seed splits the records anew; as such splits overlap, intervals are widened for it (Nadeau and "
            f"Bengio 2003, test to training records {summary.redrawn:.3g})."
        )
    else:
        seeds = (
            "All seeds share their test records: intervals tell what other first weights and another order of "
            "records would give, and not what other records would."
        )
    return [rule, seeds]


def failures(summary: Summary) -> list[str]:
    """What did not end, a sentence a run."""
    return [
        f"{failure.method}, seed {failure.seed}: {failure.reason.rstrip('.')}. "
        + (
            "It has no recorded round."
            if failure.last_round is None
            else f"Its last recorded round is {failure.last_round}."
        )
        for failure in summary.failures
    ]


def undefined_sites(summary: Summary) -> str | None:
    """Where the AUC is not defined, and over how many sites its means are; None where it is everywhere."""
    sites = sorted(
        {
            site
            for method in summary.methods
            for at in method.points.values()
            for site in (at.measures["auc"].undefined if "auc" in at.measures else at.sites)
        }
    )
    if not sites:
        return None
    of = len({site for method in summary.methods for at in method.points.values() for site in at.sites})
    return (
        f"AUC is not defined at {len(sites)} of {of} sites in at least one run ({_few(sites)}): under two classes "
        f"occur among their test records. They are left out there: its means are over {of - len(sites)} of {of} "
        "sites, and say nothing of the others."
    )


def standing(comparison: Comparison) -> str:
    """What a comparison allows one to say."""
    if comparison.overall.low is None:
        return "one seed: cannot be told"
    return {1: "better", -1: "worse", 0: "chance could give it"}[comparison.overall.sign]


def signed(number: float) -> str:
    """+0.021, or −0.021 with a true minus."""
    return f"{number:+.3f}".replace("-", "−")


def _lead(leader: MethodSummary, summary: Summary) -> str:
    over = leader.points[TUNED].measures["accuracy"]
    many = sum(TUNED in method.points for method in summary.methods)
    what = (
        f"Highest mean accuracy after local training, of {many} methods"
        if many > 1
        else ("Mean accuracy after local training")
    )
    return f"{what}: {leader.label} with {over.mean.mean:.3f} (worst site {over.worst.mean:.3f})."


def _difference(comparison: Comparison) -> str:
    interval = comparison.overall
    if interval.low is None:
        meaning = "one seed, so no interval: a second run may look different"
    elif interval.sign == 0:
        meaning = "it holds zero: chance could give the difference"
    else:
        meaning = "it does not hold zero"
    bounds = ""
    if interval.low is not None and interval.high is not None:
        bounds = f", interval {signed(interval.low)} to {signed(interval.high)}"
    return (
        f"Against {comparison.other} that is {signed(interval.mean)} on the mean of the sites{bounds} ({meaning}); "
        f"{tally(comparison)}."
    )


def _against_reference(summary: Summary, label: str) -> Comparison | None:
    return next(
        (c for c in summary.to_reference if (c.method, c.point, c.measure) == (label, TUNED, "accuracy")), None
    )


def measure_name(measure: str) -> str:
    """As it is written in a sentence."""
    return "AUC" if measure == "auc" else measure.replace("_", " ")


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
