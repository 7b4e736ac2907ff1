"""What a method costs a site: the bytes that it sends in the whole run."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from secureproto.simulation.report.drawing import Look, Plot, figure, plot, wrapped
from secureproto.simulation.results import Summary

_UNITS = ("B", "kB", "MB", "GB", "TB")


def bytes_sent(summary: Summary, look: Mapping[str, Look], key: str = "") -> list[Plot]:
    """Bytes that a site sends in a run, by method; nothing where none sends any. `key` begins the plot's."""
    found = {method.label: method.bytes_sent.mean for method in summary.methods if method.bytes_sent is not None}
    if not any(found.values()):
        return []

    def draw() -> Figure:
        drawn = figure(0.3 * len(found) + 0.7)
        axes = drawn.subplots()
        places = range(len(found))
        axes.barh(places, list(found.values()), color=[look[label].colour for label in found], height=0.6)
        for place, amount in zip(places, found.values(), strict=True):
            axes.annotate(readable(amount), (amount, place), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks(places, [wrapped(label, 40) for label in found])
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlim(0, max(found.values()) * 1.12)
        axes.xaxis.set_major_formatter(lambda amount, _: readable(amount))
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("sent by one site in the whole run")
        return drawn

    return [
        plot(
            f"{key}bytes",
            draw,
            title="What a site sends",
            alternative="; ".join(f"{label}: {readable(amount)}" for label, amount in found.items()) + ".",
            reading="Mean over sites and seeds of the arrays that a site sends in all rounds, as plain bytes.",
        )
    ]


def readable(amount: float) -> str:
    """Three digits of it: 1234567 → 1.23 MB (1 kB is 1000 bytes)."""
    unit = 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount /= 1000
        unit += 1
    return f"{amount:.3g} {_UNITS[unit]}"
