"""Candidates of a tuning, and what decides between them."""

import pytest

from secureproto.errors import Misconfigured
from secureproto.simulation.history import (
    RECEIVED,
    TEST,
    TUNED,
    VALIDATION,
    History,
    Measured,
    RoundRecord,
    SiteRound,
)
from secureproto.simulation.tuning import _ranked, candidates
from support.learning import tabular_study

STUDY = tabular_study()


def test_all_combinations_but_of_what_is_settled() -> None:
    given = {"learning_rate": ["0.1", "0.2"]}
    assert candidates("fedprox:mu=1", given, STUDY) == [
        "fedprox:mu=1:learning_rate=0.1",
        "fedprox:mu=1:learning_rate=0.2",
    ]
    assert len(candidates("fedpac", given, STUDY)) == 2 * len(candidates("fedpac", {}, STUDY)) > 2
    with pytest.raises(Misconfigured, match="no key"):
        candidates("fedprox", {"nu": ["1"]}, STUDY)


def history(spec: str, *, validation: float, test: float, complete: bool = True) -> History:
    def measured(accuracy: float) -> Measured:
        return Measured(accuracy=accuracy, balanced_accuracy=1 - accuracy, auc=None, n=10)

    both = {VALIDATION: measured(validation), TEST: measured(test)}
    record = RoundRecord(number=1, sites={"a": SiteRound(points={RECEIVED: both, TUNED: both})})
    return History(method=spec, title="x", seed=0, rounds=(record,), complete=complete)


def chosen(histories: list[History], by: str = "accuracy") -> list[str]:
    specs = [one.method for one in histories]
    return [str(row["candidate"]) for row in _ranked("m", specs, histories, by) if row["chosen"] == "use this"]  # type: ignore[arg-type]


def test_validation_decides_and_test_scores_do_not() -> None:
    runs = [history("a", validation=0.6, test=0.9), history("b", validation=0.7, test=0.1)]
    assert chosen(runs) == ["b"]
    assert chosen([history("a", validation=0.6, test=0.1), history("b", validation=0.7, test=0.9)]) == ["b"]
    assert chosen(runs, by="balanced_accuracy") == ["a"]


def test_a_run_that_did_not_end_is_not_chosen() -> None:
    runs = [history("a", validation=0.9, test=0.9, complete=False), history("b", validation=0.7, test=0.1)]
    assert chosen(runs) == ["b"]


def test_the_first_of_equals() -> None:
    assert chosen([history("a", validation=0.7, test=0.1), history("b", validation=0.7, test=0.9)]) == ["a"]
