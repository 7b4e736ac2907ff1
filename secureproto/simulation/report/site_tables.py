"""Tables with a row a site: its scores, what it gains, what it chose; and the counts of those that gain and lose."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from secureproto.simulation.history import CHOSEN, TUNED, History
from secureproto.simulation.report.gains import gained
from secureproto.simulation.report.sites import SITES_IN_TABLE
from secureproto.simulation.report.tables import DASH, Cell, Table, lead, mean
from secureproto.simulation.report.words import at_points, headed, measure_name, named, short_tally, signed
from secureproto.simulation.results import Comparison, Summary
from secureproto.simulation.statistics import MEASURES, Measure

# in the order in which a choice prefers them
CANDIDATES: Final = ("mixed", "midway", "longer", "local", "blend", "own")


def by_site(summary: Summary, measure: Measure) -> Table | None:
    """A measure at every site after local training and as chosen; None for more than 200 sites (`results.csv` has
    them), and where no site has it."""
    found = {
        (method.label, point): method.points[point]
        for method in summary.methods
        for point in (TUNED, CHOSEN)
        if point in method.points and measure in method.points[point].measures
    }
    sites = sorted({site for at in found.values() for site in at.sites})
    if not sites or len(sites) > SITES_IN_TABLE:
        return None
    rows = tuple(
        (
            Cell(site),
            Cell(str(max(at.records.get(site, 0) for at in found.values()))),
            *(mean(at.sites[site].get(measure) if site in at.sites else None) for at in found.values()),
        )
        for site in sites
    )
    points = at_points(point for _, point in found)
    caption = f"{headed(measure_name(measure))} of each site {points} (mean over seeds, ± standard deviation)"
    return Table(caption, (), ("site", "test records", *(named(*one) for one in found)), rows)


def gains_by_site(summary: Summary, measure: Measure) -> Table | None:
    """What every site gains by each method; None for more than 200 sites, and where nothing was compared."""
    found = gained(summary, measure)
    sites = sorted({site for c in found for site in (*c.sites, *c.undefined)})
    if not sites or len(sites) > SITES_IN_TABLE:
        return None
    rows = tuple(
        (Cell(site), *(lead(c.sites[site]) if site in c.sites else Cell(DASH) for c in found)) for site in sites
    )
    caption = f"Gain in {measure_name(measure)} over {summary.reference} at each site, [95 % interval]"
    return Table(caption, (), ("site", *(named(c.method, c.point) for c in found)), rows)


def tallies(summary: Summary) -> Table | None:
    """How many sites each method serves better and worse than the reference, by every measure."""
    found = {m: {(c.method, c.point): c for c in gained(summary, m)} for m in MEASURES}
    measures = [m for m in MEASURES if found[m]]
    if not measures:
        return None
    rows = tuple(
        (Cell(named(*key)), *(_tallied(found[m].get(key)) for m in measures))
        for key in dict.fromkeys(key for m in measures for key in found[m])
    )
    caption = f"Sites that gain and lose against {summary.reference}, by measure"
    return Table(caption, (), ("method", *(measure_name(m) for m in measures)), rows)


def _tallied(found: Comparison | None) -> Cell:
    if found is None:
        return Cell(DASH)
    sites = len(found.sites) + len(found.undefined)
    few = f"\n({len(found.sites)} of {sites} sites)" if found.undefined else ""
    return Cell(short_tally(found), f"mean {signed(found.overall.mean)}{few}")


def choices(summary: Summary, histories: Sequence[History]) -> list[Table]:
    """What each site chose after the last round, over the seeds that ended: a table for each method that chooses.

    With more than 200 sites, that of all sites together alone.
    """
    tables = []
    for method in summary.methods:
        runs = [one for one in histories if one.method == method.label and one.complete and one.rounds]
        chose: dict[str, Counter[str]] = {}
        for run in runs:
            for site, at in max(run.rounds, key=lambda record: record.number).sites.items():
                if at.chosen is not None:
                    chose.setdefault(site, Counter())[at.chosen] += 1
        if chose:
            tables.append(_choices(method.label, len(runs), chose))
    return tables


def _choices(label: str, seeds: int, chose: dict[str, Counter[str]]) -> Table:
    every = sum(chose.values(), Counter[str]())
    kinds = (*CANDIDATES, *sorted(set(every).difference(CANDIDATES)))
    shown = sorted(chose) if len(chose) <= SITES_IN_TABLE else []
    rows = [(site, chose[site]) for site in shown]
    rows += [(f"all {len(chose)} sites", every)] if len(chose) > 1 else []
    return Table(
        f"{label}: how often a site chose what, over {seeds} {'seed' if seeds == 1 else 'seeds'}",
        (),
        ("site", *kinds),
        tuple((Cell(name), *(Cell(str(counts[kind])) for kind in kinds)) for name, counts in rows),
    )
