"""Accuracy against ε: what privacy costs, with what lies beside it without any.

Invariant: a point is a method whose label has an ε, at the point of the version as received; its ε is that of all of
its rounds. Published figures stand there as they were published, of another model and another training.
"""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from secureproto.simulation.history import RECEIVED, method_name
from secureproto.simulation.report.drawing import INK, PURPLE, Look, Plot, figure, plot
from secureproto.simulation.report.words import measure_name
from secureproto.simulation.results import MethodSummary, Summary
from secureproto.simulation.results.summary import Estimate
from secureproto.simulation.statistics import Measure

Published = Mapping[str, Sequence[tuple[float, float]]]  # whose → (ε, mean accuracy)
SHOWN: tuple[Measure, ...] = ("accuracy", "balanced_accuracy")
LINES = {"majority": (0, (1, 3)), "local": (0, (1.2, 1.2))}


def epsilon_of(label: str) -> float | None:
    """The ε in a label, as in `protoaligned:epsilon=2`; None without one."""
    settings = dict(part.partition("=")[::2] for part in label.split(":")[1:])
    return float(settings["epsilon"]) if "epsilon" in settings else None


def curve_of(summary: Summary, measure: Measure) -> list[tuple[float, Estimate]]:
    """(ε, mean over sites) of every method with an ε, the smallest first."""
    found = [(epsilon_of(method.label), _mean(method, measure)) for method in summary.methods]
    return sorted(
        ((epsilon, mean) for epsilon, mean in found if epsilon is not None and mean is not None),
        key=lambda one: one[0],
    )


def privacy_curve(
    summary: Summary, look: Mapping[str, Look], published: Published | None = None, key: str = ""
) -> list[Plot]:
    """Accuracy and balanced accuracy against ε; nothing where fewer than two methods have one. `key` begins it."""
    curves = {measure: curve_of(summary, measure) for measure in SHOWN}
    if min(len(curve) for curve in curves.values()) < 2:
        return []

    def draw() -> Figure:
        drawn = figure(3.8)
        for axes, measure in zip(drawn.subplots(1, 2, squeeze=False)[0], SHOWN, strict=True):
            epsilons = [epsilon for epsilon, _ in curves[measure]]
            means = [mean.mean for _, mean in curves[measure]]
            deviations = [mean.deviation or 0.0 for _, mean in curves[measure]]
            axes.errorbar(epsilons, means, yerr=deviations, color=INK, marker="o", capsize=3, label="under privacy")
            for label, mean in _beside(summary, measure).items():
                line = LINES.get(label, "solid")
                axes.axhline(mean, color=look[label].colour, linestyle=line, linewidth=1.2, label=label)
            for whose, points in (published or {}).items() if measure == "accuracy" else ():
                pairs = sorted(points)
                axes.plot([e for e, _ in pairs], [a for _, a in pairs], color=PURPLE, marker="s", label=whose)
            axes.set_xscale("log")
            axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axes.set_xticks([], minor=True)
            axes.set_xlabel("ε of all rounds")
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, 0.0), min(high, 1.0))
            axes.set_ylabel(measure_name(measure))
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        return drawn

    told = "; ".join(f"ε {epsilon:g}: {mean.mean:.3f}" for epsilon, mean in curves["accuracy"])
    return [
        plot(
            f"{key}privacy-curve",
            draw,
            title="Accuracy against ε",
            alternative=f"Mean accuracy of the sites as received by the ε of all rounds: {told}.",
            reading=(
                "Mean over sites of the version as received; the bar is one standard deviation over seeds to each "
                "side (none with one seed). Level lines: methods without privacy."
            ),
        )
    ]


def _mean(method: MethodSummary, measure: Measure) -> Estimate | None:
    at = method.points.get(RECEIVED)
    over = None if at is None else at.measures.get(measure)
    return None if over is None else over.mean


def _beside(summary: Summary, measure: Measure) -> dict[str, float]:
    """What is not private: the majority class, own data only, and this project's method without privacy."""
    wanted = [
        method
        for method in summary.methods
        if method_name(method.label) in LINES or "privacy=off" in method.label.split(":")
    ]
    return {method.label: mean.mean for method in wanted if (mean := _mean(method, measure)) is not None}
