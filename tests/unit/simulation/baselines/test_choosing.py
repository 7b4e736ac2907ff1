"""The choice of a simulated site: the code of the real one, after the last round, and nothing of it on the wire."""

from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from secureproto.data.folds import Folding
from secureproto.data.source import Loaded
from secureproto.learning.choice import KINDS, Choice, Kind, Start, cross_fitted
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import score
from secureproto.learning.exchange import Received, initial_arrays
from secureproto.learning.model import Model, build
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.history import CHOSEN, RECEIVED, TEST, TUNED, VALIDATION, History
from secureproto.simulation.method import Choosing, Method, Visit
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.simulation.run import PERSONAL, Run, RunOptions, history
from secureproto.simulation.store import SHARED, RunStore
from secureproto_client.settings import TrainingSettings
from support.learning import blobs, tabular_study

STUDY = tabular_study(training={"local_epochs": 5}, rounds={"total": 4})


def disagreeing(validation: int) -> GivenSites:
    """Three sites, of which the last calls the clouds by other names."""
    sites = {}
    for number, site in enumerate("abc"):
        parts = [blobs(size, seed=10 * number + part) for part, size in enumerate((30, 21, validation)) if size]
        shift = 1 if site == "c" else 0
        sites[site] = SiteData(*(Records(part.x, (part.y + shift) % 3) for part in parts))
    return GivenSites(sites)


def by_the_client(data: SiteData, visit: Visit) -> Choice:
    """As `secureproto_client.training` chooses, with the simulation's key for the folds."""
    folds = Folding(0.2, STUDY.model.seed.to_bytes(32, "big")).of(Loaded(data.train, data.test))
    start = Start(STUDY, Received(visit.round_number, visit.shared, visit.personal), visit.site, longer=10)
    return cross_fitted(build(STUDY), start, records=data.train, folds=folds)


def played(method: Method, sites: GivenSites, *, choice: bool = True) -> tuple[History, RunStore]:
    store = RunStore()
    Run(method, sites, InProcess(), store, RunOptions(choice=choice)).go()
    return history(store, method="", title="", seed=0), store


def test_the_last_record_tells_what_was_chosen_and_its_scores() -> None:
    sites, method = disagreeing(30), ProtoAligned(STUDY)
    found, store = played(method, sites)
    for site, done in found.rounds[-1].sites.items():
        data = sites.site(site)
        visit = Visit(site, STUDY.rounds.total, store.get(SHARED), store.get(PERSONAL + site), {})
        kind, predictor = method.choose(build(STUDY), data, visit)
        expected = score(data.test.y, predictor(data.test.x))
        assert done.chosen == kind
        assert done.chosen in get_args(Kind)
        assert set(done.points[CHOSEN]) == {TEST, VALIDATION}
        assert kind == by_the_client(data, visit).kind
        assert done.points[CHOSEN][TEST].accuracy == expected.accuracy
        assert done.points[CHOSEN][TEST].auc == expected.auc
    assert all(done.chosen is None for record in found.rounds[:-1] for done in record.sites.values())


def test_it_is_asked_for_as_the_client_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version received, all candidates, the training records, and five folds by a key of the seed."""
    asked: list[tuple[Start, Records, list[int]]] = []

    def noting(model: Model, start: Start, *, records: Records, folds: NDArray[np.int64]) -> Choice:
        asked.append((start, records, folds.tolist()))
        return cross_fitted(model, start, records=records, folds=folds)

    monkeypatch.setattr("secureproto.simulation.baselines.protoaligned.cross_fitted", noting)
    study = tabular_study(model={"seed": 7})
    shared, head = initial_arrays(build(study))
    data = disagreeing(0).site("a")
    ProtoAligned(study).choose(build(study), data, Visit("a", 4, shared, head, {}))
    ((start, records, folds),) = asked
    assert (start.study, start.site, start.received.round_number) == (study, "a", 4)
    assert (start.kinds, start.longer) == (KINDS, TrainingSettings().longer)
    assert records is data.train
    assert folds == Folding(0.2, (7).to_bytes(32, "big")).of(Loaded(data.train, data.test)).tolist()


@pytest.mark.parametrize(("kind", "point"), [("mixed", RECEIVED), ("local", TUNED)])
def test_two_of_the_candidates_are_the_two_points(kind: Kind, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secureproto.learning.choice.pick", lambda _: kind)
    found, _ = played(ProtoAligned(STUDY), disagreeing(12))
    for done in found.rounds[-1].sites.values():
        assert done.points[CHOSEN] == done.points[point]


def test_the_site_that_disagrees_leaves_the_mixed_head() -> None:
    done = played(ProtoAligned(STUDY), disagreeing(0))[0].rounds[-1].sites["c"]
    assert done.chosen in ("own", "local", "midway", "longer")
    assert done.points[CHOSEN][TEST].accuracy > done.points[RECEIVED][TEST].accuracy


def test_validation_records_have_no_say_and_the_rounds_are_the_same() -> None:
    (with_some, one), (without, other) = (played(ProtoAligned(STUDY), disagreeing(size)) for size in (30, 0))
    last = [[done.chosen for done in found.rounds[-1].sites.values()] for found in (with_some, without)]
    assert last[0] == last[1]
    for owner in (SHARED, *(PERSONAL + site for site in "abc")):
        first, second = one.get(owner), other.get(owner)
        assert all(np.array_equal(first[name], second[name]) for name in first | second)
    sent = [[done.bytes_sent for done in record.sites.values()] for record in with_some.rounds]
    assert sent == [[done.bytes_sent for done in record.sites.values()] for record in without.rounds]


def test_a_site_of_one_record_takes_the_version_as_received() -> None:
    sites = {"a": SiteData(blobs(1), blobs(9)), "b": SiteData(blobs(30), blobs(9))}
    found, _ = played(ProtoAligned(STUDY), GivenSites(sites))
    assert found.rounds[-1].sites["a"].chosen == "mixed"


def test_without_choice_nothing_is_chosen_and_all_else_is_the_same() -> None:
    (choosing, _), (not_choosing, _) = (
        played(ProtoAligned(STUDY), disagreeing(0), choice=choice) for choice in (True, False)
    )
    for one, other in zip(choosing.rounds[-1].sites.values(), not_choosing.rounds[-1].sites.values(), strict=True):
        assert other.chosen is None
        assert set(other.points) == {RECEIVED, TUNED}
        assert all(one.points[point] == other.points[point] for point in other.points)


def test_methods_that_cannot_choose_do_not() -> None:
    assert isinstance(ProtoAligned(STUDY), Choosing)
    assert not isinstance(FedAvg(STUDY), Choosing)
