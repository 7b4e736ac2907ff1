"""What a simulated study with `[privacy]` would cost a record, said and refused before anything is trained.

Invariant: the ε that is told is that of the noise that is drawn: of the method as it runs, over all of its rounds, at
a site that takes part in each. Nothing is charged: nothing leaves. Source: PRIVACY.md, "Accounting".
"""

from collections.abc import Sequence

from secureproto.errors import BudgetExhausted
from secureproto.governance.forecast import remaining_rounds
from secureproto.governance.plan import plan_of
from secureproto.simulation.baselines.catalogue import make
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.study.privacy import PrivacySection
from secureproto.study.schema import StudyFile


def prices(labels: Sequence[str], study: StudyFile, records: int) -> list[str]:
    """A line for each private method, and one for those that are not. None of a study without `[privacy]`.

    `records`: of the largest site, which δ must suit.

    Raises:
        BudgetExhausted: all rounds of a method cost more than its study allows.
    """
    if study.privacy is None:
        return []
    found, plain = [], []
    for label in labels:
        method = make(label, study)
        if not isinstance(method, ProtoAligned) or method.study.privacy is None:
            plain.append(label)
        else:
            found.append(_price(label, method.study.privacy, method.study.rounds.total, records))
    return [*found, *([f"privacy: none, run without it: {', '.join(plain)}"] if plain else [])]


def _price(label: str, privacy: PrivacySection, rounds: int, records: int) -> str:
    if privacy.training is None:
        return f"privacy: {label}: extractor and head leave without protection, epsilon is infinite"
    plan = plan_of(privacy, rounds, records=records)
    cost, cap = plan.total, privacy.max_epsilon_study
    if cost.filter_epsilon > cap:
        fit = remaining_rounds(privacy, plan.gate, spent=(), next_round=0)
        raise BudgetExhausted(
            f"{label}: {rounds} rounds cost epsilon {cost.filter_epsilon:.4g} at delta {cost.delta:g}, over the "
            f"study's {cap:g}",
            reasons=("max_epsilon_study",),
            hint=f"{fit} rounds fit; or more noise: secureproto budget plan",
        )
    red = f"; n·δ is {cost.n_delta:.2g} at the largest site, over 0.1: choose a smaller delta"
    return (
        f"privacy: {label}: epsilon {cost.epsilon:.3g} by {cost.method}, {cost.filter_epsilon:.3g} by the gate (RDP "
        f"at order {cost.filter_order:g}, at most {cap:g}); delta {cost.delta:g}, per {cost.unit}, {cost.adjacency}, "
        f"{cost.sampling} sampling: {cost.words}{red if cost.delta_too_large else ''}"
    )
