"""The sentence on whether joining pays: no word in it that an interval does not bear out."""

import pytest

from secureproto.simulation.statistics import Interval
from secureproto_client.verdict import verdict


def gain(mean: float, low: float | None, high: float | None) -> Interval:
    return Interval(mean, low, high, 0.95, 100)


BETTER, WORSE, OPEN = gain(0.05, 0.01, 0.09), gain(-0.05, -0.09, -0.01), gain(0.02, -0.01, 0.05)


def test_better() -> None:
    found = verdict("after local training", {"accuracy": BETTER, "balanced_accuracy": OPEN, "auc": OPEN}, 104)
    assert found == (
        "Joining is better (after local training against own data only, 104 held-out rows: accuracy +0.050, "
        "95 % interval +0.010 to +0.090; balanced accuracy and AUC cannot be told apart)."
    )


def test_worse_in_everything() -> None:
    found = verdict("in use: 3", {"accuracy": WORSE, "auc": WORSE}, 80)
    assert found.startswith("Joining is worse (in use: 3 against own data only, 80 held-out rows: accuracy -0.050,")
    assert "cannot be told" not in found


def test_better_in_one_measure_and_worse_in_another() -> None:
    found = verdict("x", {"accuracy": BETTER, "auc": WORSE}, 80)
    assert found.startswith("Joining is better and worse (x against")
    assert "accuracy +0.050" in found
    assert "AUC -0.050" in found


@pytest.mark.parametrize("unclear", [OPEN, gain(0.0, -0.1, 0.1), gain(0.03, 0.0, 0.1), gain(0.3, None, None)])
def test_what_cannot_be_told(unclear: Interval) -> None:
    found = verdict("x", {"accuracy": unclear, "auc": None}, 16)
    assert found.startswith(
        "Whether joining is better cannot be told from 16 held-out rows (x against own data only:"
    )
    assert "AUC" not in found


SAME = gain(0.0, 0.0, 0.0)


def test_models_that_score_alike_are_said_to() -> None:
    same = SAME
    found = verdict("in use: 3-own", {"accuracy": same, "auc": same, "balanced_accuracy": None}, 80)
    assert found == (
        "Joining makes no difference on 80 held-out rows: in use: 3-own and own data only have one accuracy and AUC."
    )
    assert "cannot be told" in verdict("x", {"accuracy": same, "auc": OPEN}, 80)
    assert "cannot be told" in verdict("x", {"accuracy": gain(0.0, None, None)}, 1)
    assert "cannot be told" in verdict("x", {"accuracy": None}, 80)


def test_measures_that_are_not_counted_forbid_to_say_that_nothing_differs() -> None:
    def told(auc: Interval, balanced: Interval | None = SAME) -> str:
        return verdict("x", {"accuracy": SAME}, 16, uncounted={"balanced_accuracy": balanced, "auc": auc})

    begin = "Whether joining is better cannot be told from 16 held-out rows (x against own data only: "
    same = begin + "accuracy is the same on every row"
    assert told(OPEN) == f"{same}; AUC differs, by too few rows of a class to count)."
    assert told(BETTER) == told(gain(0.2, None, None)) == told(OPEN)
    assert told(OPEN, BETTER) == f"{same}; balanced accuracy and AUC differ, by too few rows of a class to count)."
    assert told(SAME, gain(0.0, None, None)) == same + ")."
    assert told(SAME) == (
        "Joining makes no difference on 16 held-out rows: x and own data only have one accuracy, balanced accuracy "
        "and AUC."
    )
    assert told(SAME, None).endswith("have one accuracy and AUC.")


def test_measures_that_are_not_counted_make_nothing_better() -> None:
    found = verdict("x", {"accuracy": OPEN}, 1, uncounted={"auc": BETTER})
    assert found == (
        "Whether joining is better cannot be told from 1 held-out row (x against own data only: accuracy +0.020, "
        "95 % interval -0.010 to +0.050)."
    )
    assert "AUC" not in verdict("x", {"accuracy": BETTER}, 80, uncounted={"auc": WORSE})
