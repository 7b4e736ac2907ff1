"""Results as flat rows for programs: one a method, point and measure, with all that is known of it.

Invariant: equal columns in every row; numbers are exact, what is not there is None.
"""

from collections.abc import Iterator, Sequence

from secureproto.simulation.results.comparing import Comparison
from secureproto.simulation.results.parts import Part
from secureproto.simulation.results.reported import POINTS
from secureproto.simulation.results.summarise import best_methods
from secureproto.simulation.results.summary import AtPoint, MethodSummary, Summary
from secureproto.simulation.statistics import MEASURES, Measure


def rows(parts: Sequence[Part]) -> list[dict[str, object]]:
    """The rows, as `secureproto.cli.output.emit` takes them; a method without a run that ended has one without point.

    `mean`, `deviation` (over seeds), `worst`, `spread` (over sites) are of the `sites_defined` of `sites` sites that
    have the measure in every seed. `best`: highest mean on its partition. `difference`, `low`, `high`: paired, to
    `reference`; `sites_better`, `sites_worse`, `sites_unclear`, `sites_without_interval` as `Counts`. Costs and
    `rounds_to_target` are the method's.
    """
    return [
        {"partition": part.name, "partition_digest": part.digest, **row}
        for part in parts
        for row in _of(part.summary)
    ]


def _of(summary: Summary) -> Iterator[dict[str, object]]:
    best = best_methods(summary.methods) if len(summary.methods) > 1 else {}
    for method in summary.methods:
        points = [(point, method.points[point]) for point in POINTS if point in method.points]
        for point, at in points:
            for measure in MEASURES:
                row = _score(method, point, at, measure)
                row["best"] = method.label in best.get((point, measure), ())
                yield {**row, **_gain(summary, method, point, measure), **_costs(method)}
        if not points:
            yield {**_score(method, None, None, None), "best": False, **_gain(summary, method), **_costs(method)}


def _score(
    method: MethodSummary, point: str | None, at: AtPoint | None, measure: Measure | None
) -> dict[str, object]:
    over = None if at is None or measure is None else at.measures.get(measure)
    return {
        "method": method.label,
        "point": point,
        "measure": measure,
        "mean": None if over is None else over.mean.mean,
        "deviation": None if over is None else over.mean.deviation,
        "worst": None if over is None else over.worst.mean,
        "spread": None if over is None else over.spread.mean,
        "pooled": at.pooled.mean if at is not None and measure == "accuracy" else None,
        "sites": None if at is None else len(at.sites),
        "sites_defined": None if at is None else 0 if over is None else over.defined,
        "seeds": len(method.seeds),
    }


def _gain(
    summary: Summary, method: MethodSummary, point: str | None = None, measure: Measure | None = None
) -> dict[str, object]:
    gain = comparison(summary, method.label, point, measure)
    return {
        "reference": summary.reference,
        "difference": None if gain is None else gain.overall.mean,
        "low": None if gain is None else gain.overall.low,
        "high": None if gain is None else gain.overall.high,
        "sites_better": None if gain is None else gain.counts.better,
        "sites_worse": None if gain is None else gain.counts.worse,
        "sites_unclear": None if gain is None else gain.counts.unclear,
        "sites_without_interval": None if gain is None else gain.counts.no_interval,
    }


def _costs(method: MethodSummary) -> dict[str, object]:
    return {
        "rounds_to_target": None if method.target is None else method.target.rounds,
        "bytes_sent": None if method.bytes_sent is None else method.bytes_sent.mean,
        "seconds": None if method.seconds is None else method.seconds.mean,
    }


def comparison(summary: Summary, label: str, point: str | None, measure: str | None) -> Comparison | None:
    """A method against the reference; None where that was not compared."""
    return next(
        (one for one in summary.to_reference if (one.method, one.point, one.measure) == (label, point, measure)), None
    )
