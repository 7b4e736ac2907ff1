"""The sentences of the page on how numbers were made, and the words for what a comparison allows one to say.

Invariant: no sentence says more than the numbers: a lead whose interval holds zero is called what chance could give.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED
from secureproto.simulation.results import VALIDATED, Comparison, Summary
from secureproto.simulation.statistics import FEWEST, Interval

POINT_NAMES: Final = {RECEIVED: "as received", TUNED: "after local training", CHOSEN: "as chosen"}
_NUMBERS: Final = {1: "one", 2: "two", 3: "three", 4: "four"}
_NAMES_SHOWN = 5


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
    if runs < FEWEST:
        return [rule, f"{seeds_in_words(runs).capitalize()}: no interval is given, for that takes {_number(FEWEST)}."]
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
        if not failure.derived
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
        f"occur among their test records. They are left out: its means are over {of - len(sites)} of {of} "
        "sites, and say nothing of the others."
    )


def standing(comparison: Comparison) -> str:
    """What a comparison allows one to say."""
    if comparison.overall.low is None:
        seeds = len(comparison.seeds)
        return f"{seeds_in_words(seeds) if seeds < FEWEST else 'no interval'}: cannot be told"
    return {1: "better", -1: "worse", 0: "chance could give it"}[comparison.overall.sign]


def why_no_interval(interval: Interval) -> str:
    """The reason, after which a colon or comma may follow. Only for an interval that is not there."""
    return seeds_in_words(interval.n) if interval.n < FEWEST else "the same in every seed"


def tally(comparison: Comparison, *, told: bool = False) -> str:
    """2 of 8 sites significantly better, 1 significantly worse, 5 not to be told apart (by the mean …).

    `told`: that there is no interval, and why, has been said.
    """
    counts, sites = comparison.counts, len(comparison.sites)
    means = f"{_of_sites(counts.gain, sites)} gain, {counts.lose} lose"
    if counts.no_interval == sites and told:
        return means
    if counts.no_interval == sites:
        why = why_no_interval(next(iter(comparison.sites.values())))
        return f"{means} ({why}: there is no interval, so none of it can be told from chance)"
    parts = [f"{_of_sites(counts.better, sites)} significantly better, {counts.worse} significantly worse"]
    parts.append(f"{counts.unclear} not to be told apart")
    parts += [f"{counts.no_interval} without interval"] if counts.no_interval else []
    return f"{', '.join(parts)} (by the mean alone {counts.gain} gain, {counts.lose} lose)"


def short_tally(comparison: Comparison) -> str:
    """The same for a narrow panel."""
    counts, sites = comparison.counts, len(comparison.sites)
    if counts.no_interval == sites:
        return f"{counts.gain} gain, {counts.lose} lose; no interval"
    return f"{counts.better} better, {counts.worse} worse, {sites - counts.better - counts.worse} open"


def signed(number: float) -> str:
    """+0.021, or −0.021 with a true minus."""
    return f"{number:+.3f}".replace("-", "−")


def measure_name(measure: str) -> str:
    """As it is written in a sentence."""
    return "AUC" if measure == "auc" else measure.replace("_", " ")


def headed(text: str) -> str:
    """With a capital first letter, the others as they are."""
    return f"{text[:1].upper()}{text[1:]}"


def named(label: str, point: str) -> str:
    """A method at a point, where it stands beside methods after local training."""
    return label if point == TUNED else f"{label}, {POINT_NAMES[point]}"


def at_points(points: Iterable[str]) -> str:
    """After local training and as chosen: the points that there are, in their order."""
    there = set(points)
    return listed([text for point, text in POINT_NAMES.items() if point in there])


def listed(parts: Sequence[str]) -> str:
    """One, two and three. At least one of them."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def seeds_in_words(seeds: int) -> str:
    """One seed, two seeds, 12 seeds."""
    return f"{_number(seeds)} {'seed' if seeds == 1 else 'seeds'}"


def _number(number: int) -> str:
    return _NUMBERS.get(number, str(number))


def _of_sites(count: int, sites: int) -> str:
    return f"{count} of {sites} {'site' if sites == 1 else 'sites'}"


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
