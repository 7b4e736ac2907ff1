"""Whether own data only had the time that it is compared with."""

from dataclasses import replace

import pytest

from secureproto.simulation.history import RECEIVED, History
from secureproto.simulation.results import summarise
from secureproto.simulation.results.settled import still_rising, trained_longer
from support.histories import history, measured, record


def curve(method: str, *accuracies: float) -> History:
    """As received at one site, a round each."""
    return history(method, 0, *(record(n, {RECEIVED: {"a": measured(at)}}) for n, at in enumerate(accuracies)))


def test_own_data_only_that_still_gets_better_is_told() -> None:
    rising, settled = curve("local", 0.1, 0.5, 0.55, 0.6), curve("local:local_epochs=9", 0.1, 0.7, 0.7, 0.705)
    (line,) = still_rising([rising, settled, curve("fedavg", 0.1, 0.2, 0.3, 0.4)])
    assert line.startswith("local: accuracy rose by 0.050 from version 2 to 3. A site alone may train on")
    assert still_rising([curve("local", 0.1, 0.9), settled]) == []  # of two versions nothing can be told


def test_it_is_told_of_a_directory_among_several_too() -> None:
    (line,) = still_rising([curve("first/local", 0.1, 0.5, 0.55, 0.6)])
    assert line.startswith("first/local: accuracy rose by 0.050 from version 2 to 3.")


def test_the_versions_are_named_since_few_may_have_been_scored() -> None:
    scored = {0: 0.1, 10: 0.5, 29: 0.6}
    history_ = history("local", 0, *(record(n, {RECEIVED: {"a": measured(at)}}) for n, at in scored.items()))
    (line,) = still_rising([history_])
    assert "from version 10 to 29" in line


@pytest.mark.parametrize(
    ("chose", "told"), [({"longer": 2, "midway": 1, "mixed": 9}, 3), ({"mixed": 12}, 0), ({"local": 12}, 0)]
)
def test_what_sites_trained_on_longer_is_not_held_against_own_data_only_in_silence(
    chose: dict[str, int], told: int
) -> None:
    alone, ours = summarise([curve("local", 0.1, 0.5), curve("protoaligned", 0.1, 0.6)]).methods
    lines = trained_longer([alone, replace(ours, choices=chose)])
    assert len(lines) == bool(told)
    assert all(line.startswith(f"protoaligned, chosen: {told} of 12 choices come from 10 local") for line in lines)
    assert trained_longer([replace(ours, choices=chose)]) == []
