"""Results as blocks of texts for a terminal: scores by measure, costs, and methods × partitions for several.

Invariants: best marks are per partition; a mean that leaves sites out says over how many it is; a number that is not
there is a dash.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from secureproto.simulation.results.parts import NOT_COMPARED, Across, Part, across, of_one_kind
from secureproto.simulation.results.reported import LAST, POINTS
from secureproto.simulation.results.rows import comparison
from secureproto.simulation.results.settled import still_rising, trained_longer
from secureproto.simulation.results.summarise import best_methods, unranked
from secureproto.simulation.results.summary import MethodSummary, OverSites, Summary
from secureproto.simulation.statistics import FEWEST, MEASURES, Interval, Measure

DASH = "-"
WORDS: dict[Measure, str] = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "auc": "AUC"}
CHOICES = (
    "chosen: what each site uses, by folds of its training records; mixed: the version as received, local: after "
    "local training, longer: after ten, midway: halfway there, own: with a head trained there, blend: halfway to that"
)
MEGABYTE = 1e6


@dataclass(frozen=True)
class Text:
    """A text of a cell; `best` ones stand out."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Block:
    """A table under a title, which may be empty; `notes` follow it. The first column may fold anywhere."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    notes: tuple[str, ...] = ()


def blocks(parts: Sequence[Part]) -> list[Block]:
    """What a person reads: of each partition the scores, a block a measure, and what they cost; with several
    partitions first a block over them all."""
    many = len(parts) > 1
    found = [_overview(parts)] if many else []
    for part in parts:
        before = f"{part.heading}: " if many else ""
        *scores, last = [_scores(part.summary, measure, before) for measure in MEASURES]
        notes = (*_reading(part.summary), *trained_longer(part.summary.methods), *still_rising(part.histories))
        found += [*scores, replace(last, notes=notes), _costs(part.summary)]
    return found


def _scores(summary: Summary, measure: Measure, before: str) -> Block:
    best = best_methods(summary.methods)
    difference = () if summary.reference is None else (f"vs {summary.reference}",)
    columns = ("method", "point", "mean", "worst", "spread", *difference)
    rows = []
    for method in summary.methods:
        for point in (point for point in POINTS if point in method.points):
            over = method.points[point].measures.get(measure)
            row = [Text(method.label), Text(point)]
            row.append(_mean(over, method.label in best.get((point, measure), ()), deviation=True))
            row.append(Text(DASH if over is None else f"{over.worst.mean:.3f}"))
            row.append(Text(DASH if over is None else f"{over.spread.mean:.3f}"))
            if summary.reference is not None:
                gain = comparison(summary, method.label, point, measure)
                row.append(Text(DASH if gain is None else interval_text(gain.overall)))
            rows.append(tuple(row))
        if not method.points:
            rows.append((Text(method.label), Text("no run ended"), *[Text(DASH)] * (len(columns) - 2)))
    return Block(before + WORDS[measure], columns, tuple(rows))


def _reading(summary: Summary) -> tuple[str, ...]:
    """How the block of scores is read."""
    seeds = max((len(method.seeds) for method in summary.methods), default=0)
    lacking = unranked(summary.methods)
    parts = ["mean over sites", "worst site and spread over sites: of each seed, then their mean"]
    if seeds > 1:
        parts.insert(1, "± over seeds" if lacking else f"± over {seeds} seeds")
    if summary.reference is not None:
        enough = seeds >= FEWEST
        parts.append("[95 % interval] paired by seed" if enough else f"under {FEWEST} seeds, so no interval")
    if summary.rule != LAST:
        parts.append("the version reported is the best on validation records")
    if summary.target is not None:
        parts.append(f"rounds to {summary.target:g}: by the mean as received, of fedavg-ft after local training")
    chosen = [CHOICES] if any(method.choices for method in summary.methods) else []
    return ("; ".join(parts), *chosen, *([lacking] if lacking else []))


def _costs(summary: Summary) -> Block:
    target = () if summary.target is None else (f"rounds to {summary.target:g}",)
    choices = ("sites chose",) if any(method.choices for method in summary.methods) else ()
    columns = ("method", "runs", *target, "MB a site sent", "seconds a run", *choices)
    rows = []
    for method in summary.methods:
        failed = sum(failure.method == method.label for failure in summary.failures)
        row = [method.label, f"{len(method.seeds)} of {len(method.seeds) + failed}"]
        row += [_rounds(method)] if target else []
        row.append(DASH if method.bytes_sent is None else f"{method.bytes_sent.mean / MEGABYTE:.3g}")
        row.append(DASH if method.seconds is None else f"{method.seconds.mean:.1f}")
        row += [_choices_text(method)] if choices else []
        rows.append(tuple(map(Text, row)))
    return Block("", columns, tuple(rows))


def _overview(parts: Sequence[Part]) -> Block:
    """Accuracy of methods × partitions, and the mean over partitions where there is one to be had."""
    found = [one for one in across(parts) if one.measure == "accuracy"]
    averaged = of_one_kind(parts)
    columns = ("method", "point", *(part.name for part in parts), *([mean_of(parts)] if averaged else []))
    rows = tuple(_over_parts(one, averaged=averaged) for one in found)
    mean = (
        "the mean over partitions is not ranked"
        if averaged
        else "no mean over partitions: data, study, rounds or ways to choose differ"
    )
    return Block(
        "Accuracy by partition", columns, rows, (NOT_COMPARED, f"± over seeds, where there are several; {mean}")
    )


def mean_of(parts: Sequence[Part]) -> str:
    """The heading of the mean over partitions."""
    return f"mean of {len(parts)} partitions"


def _over_parts(one: Across, *, averaged: bool) -> tuple[Text, ...]:
    cells = [_mean(over, name in one.best, deviation=True) for name, over in one.by_part.items()]
    mean = [Text(DASH if one.mean is None else f"{one.mean:.3f}")] if averaged else []
    return (Text(one.method), Text(one.point), *cells, *mean)


def _mean(over: OverSites | None, best: bool, *, deviation: bool = False) -> Text:
    if over is None:
        return Text(DASH)
    text = f"{over.mean.mean:.3f}"
    if deviation and over.mean.deviation is not None:
        text += f" ± {over.mean.deviation:.3f}"
    return Text(text + partial_text(over), best)


def partial_text(over: OverSites) -> str:
    """Over how many sites a mean is, where not over all: ' (3 of 4 sites)'."""
    return "" if over.defined == over.of else f" ({over.defined} of {over.of} sites)"


def _rounds(method: MethodSummary) -> str:
    if method.target is None:
        return DASH
    if method.target.rounds is None:
        return "not reached"
    few = "" if method.target.reached == method.target.runs else f" ({method.target.reached} of {method.target.runs})"
    return f"{method.target.rounds:g}{few}"


def _choices_text(method: MethodSummary) -> str:
    """What its sites chose, over seeds: 'mixed 9×, own 3×'."""
    return ", ".join(f"{name} {count}×" for name, count in method.choices.items()) or DASH


def interval_text(interval: Interval, digits: int = 3) -> str:
    """+0.021 [+0.003, +0.039], or the mean alone where there is no interval."""
    mean = f"{interval.mean:+.{digits}f}"
    if interval.low is None or interval.high is None:
        return mean
    return f"{mean} [{interval.low:+.{digits}f}, {interval.high:+.{digits}f}]"
