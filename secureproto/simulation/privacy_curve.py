"""What `simulate privacy-curve` does: the method at several ε, without privacy, own data only and the majority class.

An experiment like any other: resumable, with the same files; the page has the curve. Invariant: at each ε the noise
is the least with which all rounds of the study cost that much, and nothing else differs.
"""

from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from secureproto.errors import Misconfigured
from secureproto.simulation.command import Found, Reporting, Request, perform
from secureproto.simulation.history import RECEIVED
from secureproto.simulation.report.privacy import epsilon_of
from secureproto.simulation.statistics import MEASURES
from secureproto.study.file import load

METHOD = "protoaligned"
WITHOUT = f"{METHOD}:privacy=off"
BESIDE = ("majority", "local", WITHOUT)


class CurveRequest(Request):
    """What was asked for; `epsilons`: different, over 0. Its methods follow from them."""

    epsilons: tuple[float, ...] = Field(min_length=1)
    without_baselines: bool = True

    @property
    def named(self) -> list[str]:
        return [*BESIDE, *(f"{METHOD}:epsilon={epsilon:g}" for epsilon in sorted(self.epsilons))]


def privacy_curve(request: CurveRequest, say: Callable[[str], None]) -> tuple[Found, list[dict[str, object]]]:
    """The experiment, and a row for each ε and for what is beside it.

    Raises:
        Misconfigured: an ε that is given twice, a study without `[privacy.training]`; and as `command.perform`.
        BudgetExhausted: no noise keeps one of them.
    """
    if len({f"{epsilon:g}" for epsilon in request.epsilons}) < len(request.epsilons):
        raise Misconfigured("--epsilons: one of them is given twice")
    _demand_training(request.study)
    found = perform(request, Reporting(), say)
    return found, _rows(found)


def _demand_training(path: Path) -> None:
    privacy = load(path).privacy
    if privacy is None or privacy.training is None:
        raise Misconfigured(
            f"{path}: has no [privacy.training], so nothing says how it would be trained under privacy",
            hint="the README has an example: What would privacy cost?",
        )


def _rows(found: Found) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for method in found.summary.methods:
        at = method.points.get(RECEIVED)
        if at is not None:
            scores: dict[str, object] = {m: round(at.measures[m].mean.mean, 4) for m in MEASURES if m in at.measures}
            worst = round(at.measures["accuracy"].worst.mean, 4) if "accuracy" in at.measures else None
            epsilon = epsilon_of(method.label)
            rows.append({"epsilon": epsilon, "method": method.label, **scores, "worst site": worst})
    return rows
