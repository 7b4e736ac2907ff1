"""The report of an experiment as one HTML page that needs nothing else: no network, no script, no font.

Invariants: every text of the experiment is escaped by the template; pictures that were made elsewhere (the
partition) come in as images, in which nothing runs; a policy in the page forbids the browser to load anything; equal
reports give equal bytes.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from secureproto.simulation.report.costs import bytes_sent
from secureproto.simulation.report.curves import learning_curves, shown_first, training_curves
from secureproto.simulation.report.drawing import Plot, looks
from secureproto.simulation.report.findings import findings
from secureproto.simulation.report.gains import gained, gains
from secureproto.simulation.report.leads import leads
from secureproto.simulation.report.overview import averaging, by_partition
from secureproto.simulation.report.privacy import Published, privacy_curve
from secureproto.simulation.report.relations import relation_maps
from secureproto.simulation.report.site_tables import by_site, choices, gains_by_site, tallies
from secureproto.simulation.report.sites import scores_by_site
from secureproto.simulation.report.tables import Table, by_measure, further, hyper_parameters
from secureproto.simulation.report.words import (
    counting,
    failures,
    headed,
    measure_name,
    seeds_in_words,
    undefined_sites,
)
from secureproto.simulation.results import NOT_COMPARED, Part, Summary
from secureproto.simulation.results.settled import still_rising, trained_longer
from secureproto.simulation.statistics import FEWEST, LEVEL, MEASURES

_WIDTH = re.compile(r'<svg[^>]*?\swidth="([0-9]+\.?[0-9]*)pt"')
_PIXELS, _LARGER = 96 / 72, 1.25  # of a point; of a picture that was made elsewhere
_CHOICES = (
    "Chosen after the last round, for use at the site alone: mixed is the version as received, longer the same after "
    "ten more local trainings, midway the mean of these two, local after one training; own is the received "
    "extractor with a head trained at the site, blend the mean of that and mixed."
)
_OPEN = 6  # panels of gains, up to which those of every measure are unfolded: two rows each


@dataclass(frozen=True)
class OnPartition:
    """What was found on one partition.

    Args:
        part: its summary, and the histories for the curves (those of failed runs too).
        facts: name → text, shown in this order: study, data, digest of the partition, split.
        settings: label → hyper-parameter → value.
        picture: SVG document of the partition. published: others' accuracies under privacy on this very split.
    """

    part: Part
    facts: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    picture: str | None = None
    published: Published = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All that a page shows: `parts`, of which none is compared with another; `facts` and `notes` on them all."""

    title: str
    parts: Sequence[OnPartition]
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Picture:
    """An image that was made elsewhere, as a data address, and its width on the page in pixels, where it has one."""

    source: str
    width: int | None


@dataclass(frozen=True)
class Fold:
    """What a reader unfolds."""

    title: str
    plots: Sequence[Plot] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page: what it is called, and the plots and tables in it."""

    key: str
    title: str
    plots: Sequence[Plot] = ()
    tables: Sequence[Table] = ()
    folded: Sequence[Fold] = ()
    note: str | None = None


@dataclass(frozen=True)
class Chapter:
    """A partition's share of the page. `key` begins the ids in it; empty where it is the only one."""

    key: str
    name: str
    heading: str
    findings: Sequence[str]
    facts: Mapping[str, str]
    notes: Sequence[str]
    sections: Sequence[Section]
    picture: Picture | None
    failures: Sequence[str]
    settings: Table | None


def render(report: Report) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("secureproto.simulation.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["inline"] = lambda plot: Markup(plot.svg)  # noqa: S704  drawn here, its labels escaped
    environment.filters["breakable"] = breakable
    several = len(report.parts) > 1
    parts = [shown.part for shown in report.parts]
    return environment.get_template("page.html.j2").render(
        title=report.title,
        facts=report.facts,
        notes=[*([NOT_COMPARED] if several else []), *report.notes],
        several=several,
        overview=by_partition(parts) if several else [],
        overview_note=averaging(parts),
        chapters=[
            _chapter(shown, f"partition-{place}-" if several else "", {} if several else report.facts)
            for place, shown in enumerate(report.parts, start=1)
        ],
        level=LEVEL,
        fewest=seeds_in_words(FEWEST),
    )


def _chapter(shown: OnPartition, key: str, more: Mapping[str, str]) -> Chapter:
    """`more`: facts that have no other place on the page."""
    summary = shown.part.summary
    return Chapter(
        key=key,
        name=shown.part.name,
        heading=shown.part.heading,
        findings=[*findings(summary), *trained_longer(summary.methods), *still_rising(shown.part.histories)],
        facts={**_facts(shown), **more},
        notes=counting(summary),
        sections=[section for section in _sections(shown, key) if section.plots or section.tables],
        picture=None if shown.picture is None else _picture(shown.picture),
        failures=failures(summary),
        settings=hyper_parameters(shown.settings),
    )


def breakable(text: str) -> Markup:
    """The text, escaped, with places where a long label may go on in the next line."""
    return Markup(re.sub(r"(?<=[:/=])(?=\w)", "<wbr>", str(escape(text))))  # noqa: S704  escaped before


def _sections(shown: OnPartition, key: str) -> list[Section]:
    summary = shown.part.summary
    labels = [method.label for method in summary.methods]
    runs = {label: [history for history in shown.part.histories if history.method == label] for label in labels}
    look = looks(labels, summary.reference)
    any_score = any(method.points for method in summary.methods)
    tables = [by_measure(summary, measure) for measure in MEASURES] if any_score else []
    curves = learning_curves(runs, look, shown_first(summary), key)
    first, *others = MEASURES
    by_sites = [Fold(plot.title, [plot]) for m in others for plot in scores_by_site(summary, look, m, key)]
    by_sites += [
        Fold(f"{headed(measure_name(m))} as a table", tables=[t]) for m in MEASURES if (t := by_site(summary, m))
    ]
    chose = choices(summary, shown.part.histories)
    return [
        Section("summary", "Summary", tables=[*tables, further(summary)], note=undefined_sites(summary)),
        Section("privacy", "Privacy and accuracy", privacy_curve(summary, look, shown.published, key)),
        Section("curves", "Learning curves", curves),
        Section("by-site", "Site by site", scores_by_site(summary, look, first, key), folded=by_sites),
        _gains(summary, key),
        Section("choices", "What sites chose", tables=chose, note=_CHOICES),
        Section("best", "The best against the others", tables=leads(summary, shown.part.histories)),
        Section("relation", "Relation of the sites", relation_maps(runs, key)),
        Section("local-training", "Losses and norms", training_curves(runs, look, key)),
        Section("traffic", "Bytes", bytes_sent(summary, look, key)),
    ]


def _gains(summary: Summary, key: str) -> Section:
    """Counts by every measure; the plots of further measures are folded where there are many panels."""
    plots = gains(summary, key)
    panels = {(c.method, c.point) for c in gained(summary, MEASURES[0])}
    shown = plots if len(panels) <= _OPEN else plots[:1]
    folded = [Fold(plot.title, [plot]) for plot in plots if plot not in shown]
    folded += [
        Fold(f"Gains in {measure_name(m)} as a table", tables=[t])
        for m in MEASURES
        if (t := gains_by_site(summary, m))
    ]
    counts = tallies(summary)
    return Section("gain", "Who gains, who loses", shown, [] if counts is None else [counts], folded)


def _facts(shown: OnPartition) -> dict[str, str]:
    histories = shown.part.histories
    seeds = sorted({history.seed for history in histories})
    sites = {site for history in histories for record in history.rounds for site in record.sites}
    return {
        **shown.facts,
        "sites": str(len(sites)),
        "methods": str(len(shown.part.summary.methods)),
        "seeds": ", ".join(map(str, seeds)) or "none",
    }


def _picture(svg: str) -> Picture:
    """The picture a little larger than it is, for its small print, and never as wide as the page makes a plot."""
    width = _WIDTH.search(svg)
    address = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    return Picture(address, None if width is None else round(float(width.group(1)) * _PIXELS * _LARGER))
