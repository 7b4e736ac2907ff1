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

from secureproto.simulation.history import History
from secureproto.simulation.report.costs import bytes_sent
from secureproto.simulation.report.curves import learning_curves, training_curves
from secureproto.simulation.report.drawing import Plot, looks
from secureproto.simulation.report.relations import relation_maps
from secureproto.simulation.report.sites import accuracy_by_site, gains
from secureproto.simulation.report.tables import (
    Table,
    by_measure,
    by_site,
    further,
    hyper_parameters,
    lead_of_best,
)
from secureproto.simulation.report.words import counting, failures, findings, undefined_sites
from secureproto.simulation.results import Summary
from secureproto.simulation.statistics import LEVEL, MEASURES


@dataclass(frozen=True)
class Report:
    """All that a page shows.

    Args:
        summary: of `histories`.
        histories: for the curves; those of failed runs too.
        facts: name → text, shown in this order: study, data, digest of the partition, split, versions.
        settings: label → hyper-parameter → value.
        partitions: name → SVG document of a partition; the name may be empty where there is one.
        notes: further sentences for the reader.
    """

    title: str
    summary: Summary
    histories: Sequence[History]
    facts: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Picture:
    """An image that was made elsewhere, as a data address."""

    name: str
    source: str


@dataclass(frozen=True)
class Section:
    """A part of the page: what it is called, and the plots and tables in it."""

    key: str
    title: str
    plots: Sequence[Plot] = ()
    tables: Sequence[Table] = ()
    folded: Table | None = None
    note: str | None = None


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
    return environment.get_template("page.html.j2").render(
        title=report.title,
        facts=_facts(report),
        notes=[*counting(report.summary), *report.notes],
        findings=findings(report.summary),
        sections=[section for section in _sections(report) if section.plots or section.tables],
        partitions=[Picture(name, _address(svg)) for name, svg in report.partitions.items()],
        failures=failures(report.summary),
        settings=hyper_parameters(report.settings),
        level=LEVEL,
    )


def breakable(text: str) -> Markup:
    """The text, escaped, with places where a long label may go on in the next line."""
    return Markup(re.sub(r"(?<=[:/=])(?=\w)", "<wbr>", str(escape(text))))  # noqa: S704  escaped before


def _sections(report: Report) -> list[Section]:
    summary = report.summary
    labels = [method.label for method in summary.methods]
    runs = {label: [history for history in report.histories if history.method == label] for label in labels}
    look = looks(labels, summary.reference)
    any_score = any(method.points for method in summary.methods)
    tables = [by_measure(summary, measure) for measure in MEASURES] if any_score else []
    return [
        Section("summary", "Summary", tables=[*tables, further(summary)], note=undefined_sites(summary)),
        Section("curves", "Learning curves", learning_curves(runs, look)),
        Section("by-site", "Site by site", accuracy_by_site(summary, look), folded=by_site(summary)),
        Section("gain", "Who gains, who loses", gains(summary)),
        Section("best", "The best against the others", tables=lead_of_best(summary)),
        Section("relation", "Relation of the sites", relation_maps(runs)),
        Section("local-training", "Losses and norms", training_curves(runs, look)),
        Section("traffic", "Bytes", bytes_sent(summary, look)),
    ]


def _facts(report: Report) -> dict[str, str]:
    summary = report.summary
    seeds = sorted({history.seed for history in report.histories})
    sites = {site for history in report.histories for record in history.rounds for site in record.sites}
    return {
        **report.facts,
        "sites": str(len(sites)),
        "methods": str(len(summary.methods)),
        "seeds": ", ".join(map(str, seeds)) or "none",
    }


def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
