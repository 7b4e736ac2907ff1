"""Runs: who takes part, what is scored and when, when a run stops; for every method, that equal runs are equal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured, PolicyDenied
from secureproto.learning.arrays import load_arrays
from secureproto.learning.evaluate import Scores, evaluate, score
from secureproto.learning.model import Model, build
from secureproto.simulation.baselines.catalogue import METHODS, make
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.engines.inprocess import InProcess
from secureproto.simulation.history import CHOSEN, RECEIVED, TEST, TUNED, VALIDATION, Measured, RoundRecord
from secureproto.simulation.method import Method, Predictor, Visit
from secureproto.simulation.outcomes import Outcome, outcomes
from secureproto.simulation.population import GivenSites, Pool, Population, SiteData, SiteRows
from secureproto.simulation.run import Claim, Run, RunOptions, claim, history, participants, read_history
from secureproto.simulation.store import RunStore
from secureproto.study.schema import StudyFile
from support.learning import blobs, tabular_study
from support.method_rounds import federation, play
from support.simulated import ended, population

Kind = Callable[[StudyFile], Method]
SHORT = {"local_epochs": 1}


def measured(scores: Scores) -> Measured:
    return Measured(accuracy=scores.accuracy, balanced_accuracy=scores.balanced_accuracy, auc=scores.auc, n=scores.n)


class TestParticipants:
    NAMES = tuple(f"site-{i}" for i in range(10))

    def drawn(self, number: int, names: Sequence[str] = NAMES, **rounds: float) -> list[str]:
        return participants(tabular_study(rounds=rounds), names, number)

    def test_all_of_them_unless_the_study_says_less(self) -> None:
        assert self.drawn(0) == sorted(self.NAMES)
        assert self.drawn(0, self.NAMES[::-1]) == sorted(self.NAMES)

    def test_a_share_rounded_up_but_never_fewer_than_the_quorum(self) -> None:
        assert len(self.drawn(0, participation=0.31)) == 4
        assert len(self.drawn(0, participation=0.1, quorum=3)) == 3
        assert self.drawn(0, participation=0.1, quorum=12) == sorted(self.NAMES)

    def test_they_are_drawn_for_each_round_and_the_same_for_whoever_asks(self) -> None:
        assert self.drawn(1, participation=0.3) == self.drawn(1, self.NAMES[::-1], participation=0.3)
        assert len({tuple(self.drawn(number, participation=0.3)) for number in range(8)}) > 4
        for number in range(8):
            found = self.drawn(number, participation=0.3)
            assert found == sorted(set(found))

    def test_each_has_the_same_chance(self) -> None:
        rounds = 600
        counts = dict.fromkeys(self.NAMES, 0)
        for number in range(rounds):
            for name in self.drawn(number, participation=0.3):
                counts[name] += 1
        # binomial with p = 0.3: five deviations are 56
        assert all(abs(count - 0.3 * rounds) < 56 for count in counts.values())

    def test_the_seed_decides(self) -> None:
        one, other = (tabular_study(model={"seed": seed}, rounds={"participation": 0.3}) for seed in (1, 2))
        assert any(participants(one, self.NAMES, r) != participants(other, self.NAMES, r) for r in range(3))

    def test_a_round_of_one_seed_is_not_the_next_seed_s_round_before(self) -> None:
        now, later = (tabular_study(model={"seed": seed}, rounds={"participation": 0.3}) for seed in (0, 1))
        assert any(participants(now, self.NAMES, r + 1) != participants(later, self.NAMES, r) for r in range(3))

    def test_a_round_trains_them_and_nobody_else(self) -> None:
        study, sites = tabular_study(rounds={"total": 3, "participation": 0.5, "quorum": 1}), population(6, 6, 6, 6)
        *rounds, last = ended(FedAvg(study), sites).history.rounds
        for record in rounds:
            assert list(record.sites) == participants(study, sites.names, record.number)
        assert list(last.sites) == list(sites.names)


@pytest.mark.parametrize("name", METHODS)
def test_equal_runs_are_equal_and_the_order_of_the_sites_does_not_matter(name: str) -> None:
    study, sites = tabular_study(rounds={"total": 2}), federation(20, 9, 14)
    backwards = dict(reversed(sites.items()))
    assert outcomes(make(name, study), GivenSites(sites)) == outcomes(make(name, study), GivenSites(backwards))


@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_what_its_steps_give_one_by_one(name: str) -> None:
    """Against a loop that has no store and no engine: the method's steps, and scores by scikit-learn."""
    study, sites = tabular_study(rounds={"total": 2}), federation(20, 9, 14)
    method = make(name, study)
    records = ended(method, GivenSites(sites)).history.rounds
    for number, record in enumerate(records):
        before, after = play(method, sites, number), play(method, sites, number + 1)
        assert record.number == number
        for site, data in sites.items():
            received = method.use(build(study), data, before.visit(site))(data.test.x)
            points = record.sites[site].points
            assert points[RECEIVED] == {TEST: measured(score(data.test.y, received))}
            assert points[TUNED] == {TEST: measured(score(data.test.y, after.trained[site]))}
            sent = sum(array.nbytes for array in after.sent[number][site].arrays.values())
            assert record.sites[site].bytes_sent == (0 if number == 2 else sent)


def test_scores_do_not_lean_on_the_rounds_before() -> None:
    """Each record on its own: the version that was received, loaded into a fresh model."""
    sites = population(12, 9)
    for number, record in enumerate(ended(FedAvg(tabular_study(rounds={"total": 3})), sites).history.rounds[1:], 1):
        model = build(tabular_study())
        load_arrays(model, ended(FedAvg(tabular_study(rounds={"total": number})), sites).shared)
        for site in sites.names:
            assert record.sites[site].points[RECEIVED][TEST] == measured(evaluate(model, sites.site(site).test))


class TestEvaluation:
    STUDY = tabular_study(rounds={"total": 5, "participation": 0.5, "quorum": 1}, training=SHORT)
    SITES = population(6, 8, 7)

    def test_every_so_many_rounds_and_after_the_last(self) -> None:
        found = ended(FedAvg(self.STUDY), self.SITES, options=RunOptions(evaluate_every=2)).history.rounds
        scored = [any(site.points for site in record.sites.values()) for record in found]
        assert scored == [True, False, True, False, True, True]
        assert [all(site.steps for site in record.sites.values()) for record in found] == [True] * 6

    @pytest.mark.parametrize("kind", [FedAvg, Local, ProtoAligned])
    def test_how_often_changes_no_number(self, kind: Kind) -> None:
        often, seldom = (
            ended(kind(self.STUDY), self.SITES, options=RunOptions(evaluate_every=every)) for every in (1, 99)
        )
        for one, other in (
            (often.shared, seldom.shared),
            *((often.kept[site], seldom.kept[site]) for site in often.kept),
        ):
            assert {n: a.tobytes() for n, a in one.items()} == {n: a.tobytes() for n, a in other.items()}
        assert often.history.rounds[-1] == seldom.history.rounds[-1]

    def test_the_last_record_is_of_all_sites_and_nothing_of_it_is_sent(self) -> None:
        longer = self.STUDY.model_copy(update={"rounds": self.STUDY.rounds.model_copy(update={"total": 1})})
        store = RunStore()
        seen: list[RoundRecord] = []
        Run(Local(longer), self.SITES, InProcess(), store).go(seen.append)
        last = seen[-1]
        assert (len(seen), last.number) == (2, 1)
        assert {site: found.bytes_sent for site, found in last.sites.items()} == dict.fromkeys(self.SITES.names, 0)
        outside = set(self.SITES.names) - set(seen[0].sites)
        assert outside
        assert all(store.get("kept/" + site) == {} for site in outside)  # trained in the last record, and not kept
        store.close()

    def test_validation_records_and_the_site_s_own_choice(self) -> None:
        records = blobs(40)
        rows = np.arange(40)
        sites = Population(
            Pool(records), {"a": SiteRows(rows[:20], rows[20:30], rows[30:]), "b": SiteRows(rows[:5], rows[5:9])}
        )
        study = tabular_study(rounds={"total": 1})
        first, last = ended(Choosy(study), sites).history.rounds
        assert set(first.sites["a"].points) == {RECEIVED, TUNED}
        assert {point: set(parts) for point, parts in last.sites["a"].points.items()} == {
            RECEIVED: {TEST, VALIDATION}, CHOSEN: {TEST, VALIDATION}, TUNED: {TEST, VALIDATION},
        }  # fmt: skip
        assert (last.sites["a"].chosen, last.sites["b"].chosen) == ("class 1", "class 1")
        assert (first.sites["a"].chosen, list(last.sites["b"].points[CHOSEN])) == (None, [TEST])
        ones = np.mean(records.y[20:30] == 1)
        assert last.sites["a"].points[CHOSEN][TEST].accuracy == ones
        assert last.sites["a"].points[RECEIVED][VALIDATION].n == 10


@dataclass(frozen=True)
class Choosy(FedAvg):
    """FedAvg whose sites choose class 1 for everybody."""

    def choose(self, model: Model, data: SiteData, visit: Visit) -> tuple[str, Predictor]:
        return "class 1", lambda x: np.tile([0.1, 0.8, 0.1], (len(x), 1))


class TestStopping:
    RULE = MappingProxyType({"relative_tolerance": 0.999, "patience": 1})

    def rounds(self, kind: Kind, stopping: Mapping[str, Any] | None = None) -> list[RoundRecord]:
        sections = {} if stopping is None else {"stopping": dict(stopping)}
        study = tabular_study(rounds={"total": 6}, training=SHORT, **sections)  # type: ignore[arg-type]  # of sections
        return list(ended(kind(study), population(9, 12)).history.rounds)

    def test_a_method_whose_sites_report_their_loss_stops_when_it_has_converged(self) -> None:
        found = self.rounds(ProtoAligned, stopping=self.RULE)
        losses = [record.loss for record in found]
        assert len(found) == 3  # two rounds, of which the second changed little, and the last scores
        assert losses[0] is not None
        assert losses[1] is not None
        assert abs(losses[1] - losses[0]) <= 0.999 * losses[0]

    def test_in_the_record_after_it_nothing_is_sent_and_sites_choose(self) -> None:
        *rounds, last = self.rounds(ProtoAligned, stopping=self.RULE)
        assert last.number < 6
        assert all(site.bytes_sent and site.chosen is None for one in rounds for site in one.sites.values())
        for site in last.sites.values():
            assert (site.bytes_sent, site.chosen is None, CHOSEN in site.points) == (0, False, True)

    def test_it_goes_on_while_the_loss_moves(self) -> None:
        found = self.rounds(ProtoAligned, stopping={"relative_tolerance": 1e-12, "patience": 1})
        assert len(found) == 7
        assert all(record.loss is not None for record in found[:-1])

    def test_without_the_rule_no_loss_is_asked_for(self) -> None:
        found = self.rounds(ProtoAligned)
        assert [record.loss for record in found] == [None] * 7

    @pytest.mark.parametrize("kind", [FedAvg, Local])
    def test_a_method_that_reports_none_goes_on_to_its_last_round(self, kind: Kind) -> None:
        assert len(self.rounds(kind, stopping=self.RULE)) == 7


class TestDivergence:
    """The first weights are harmless, so a run with this learning rate ends in its first or second round."""

    def run(self, kind: Kind, *, every: int = 1, **training: object) -> tuple[Run, RunStore]:
        study = tabular_study(rounds={"total": 4}, training={"batch_size": 64, **training})
        store = RunStore()
        return Run(kind(study), population(9, 12), InProcess(), store, RunOptions(every)), store

    @pytest.mark.parametrize("kind", [FedAvg, Local, ProtoAligned])
    def test_the_run_is_stopped_and_noted_with_its_loss_and_round(self, kind: Kind) -> None:
        run, store = self.run(kind, every=99, learning_rate=1e12, local_epochs=1)
        run.go()
        found = history(store, method="m", title="M", seed=0)
        number = len(found.rounds)
        assert found.failure == f"diverged in round {number}: the cross entropy is over 1e+06"
        assert (found.complete, number < 4) == (False, True)
        kept = store.get("shared")
        run.go()  # a run that has diverged is over
        assert history(store, method="m", title="M", seed=0) == found
        assert list(store.get("shared")) == list(kept)
        store.close()

    def test_a_model_that_gives_no_numbers_stops_the_run_too(self) -> None:
        run, store = self.run(FedAvg, learning_rate=1e30, local_epochs=1)
        run.go()
        assert store.fact("failure") == "diverged in round 0: a model's output is no longer finite"
        assert store.rounds() == ()
        store.close()

    def test_so_does_a_sum_that_the_server_cannot_take(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Between scores nobody looks at what the model gives, and the embeddings' sums are the first to tell."""
        monkeypatch.setattr("secureproto.learning.training.LARGEST", float("inf"))
        training = {"learning_rate": 1e8, "local_epochs": None, "local_steps": 1, "batch_size": 64}
        study = tabular_study(rounds={"total": 4}, model={"hidden": [8]}, training=training)
        found = ended(ProtoAligned(study), population(9, 12), options=RunOptions(7)).history
        assert found.failure == "diverged in round 1: site 'site-0': tensor 'prototypes' is not finite"
        assert (len(found.rounds), found.complete) == (1, False)

    def test_the_engine_goes_on_with_others(self) -> None:
        engine, sites = InProcess(), population(9, 12)
        study = tabular_study(rounds={"total": 2})
        wild = tabular_study(rounds={"total": 2}, training={"learning_rate": 1e12})
        before = ended(FedAvg(study), sites, engine=engine).history
        assert ended(FedAvg(wild), sites, engine=engine).history.failure is not None
        assert ended(FedAvg(study), sites, engine=engine).history == before

    def test_outcomes_are_refused_with_the_reason(self) -> None:
        wild = tabular_study(training={"learning_rate": 1e12})
        with pytest.raises(Misconfigured, match=r"^FedAvg: diverged in round \d: "):
            outcomes(FedAvg(wild), population(9, 12))


def test_a_relation_is_kept_while_it_can_be_read() -> None:
    study = tabular_study(rounds={"total": 1}, training=SHORT)
    few = ended(ProtoAligned(study), population(5, 6, 7)).history.rounds
    relation = few[0].relation
    assert relation is not None
    assert [len(row) for row in relation] == [3, 3, 3]
    np.testing.assert_allclose(np.sum(relation, axis=1), 1, atol=1e-5)
    assert few[1].relation is None
    assert ended(FedAvg(study), population(5, 6)).history.rounds[0].relation is None
    assert ended(ProtoAligned(study), population(*[4] * 65, test=3)).history.rounds[0].relation is None


def test_each_record_is_told_when_it_is_on_disk() -> None:
    store, told = RunStore(), list[RoundRecord]()

    def watch(record: RoundRecord) -> None:
        told.append(record)
        assert store.rounds()[-1] == record

    Run(FedAvg(tabular_study(rounds={"total": 2})), population(5, 6), InProcess(), store).go(watch)
    assert [record.number for record in told] == [0, 1, 2]
    assert history(store, method="m", title="M", seed=3).complete
    store.close()


@pytest.mark.parametrize("stopping", [None, {"relative_tolerance": 0.9, "patience": 1}])
def test_the_last_scores_are_announced_before_they_are_taken_also_of_a_study_that_stops_early(stopping: Any) -> None:
    study = tabular_study(rounds={"total": 6}, **({"stopping": stopping} if stopping else {}))
    store, told = RunStore(), list[int | str]()
    run = Run(ProtoAligned(study), population(5, 6), InProcess(), store)
    run.go(lambda record: told.append(record.number), lambda: told.append("last"))
    rounds = store.rounds_done() - 1
    store.close()
    assert told == [*range(rounds), "last", rounds]
    assert (rounds < 6) == (stopping is not None)


def test_a_model_that_may_not_be_built_is_refused_before_anything_is_written() -> None:
    study = tabular_study(model={"name": "support.tiny_model:factory"})
    store = RunStore()
    with pytest.raises(PolicyDenied):
        Run(FedAvg(study), population(5, 6), InProcess(), store).go()
    assert store.fact("format") is None
    store.close()


def test_outcomes_are_the_scores_of_the_last_record() -> None:
    study, sites = tabular_study(rounds={"total": 2}), population(9, 12)
    found = ended(FedAvg(study), sites)
    received, tuned = found.scores(RECEIVED), found.scores(TUNED)
    assert outcomes(FedAvg(study), sites) == {s: Outcome(received[s], tuned[s]) for s in sites.names}


def test_sites_without_records_are_named() -> None:
    full, empty = blobs(6), blobs(0)
    rows, none = np.arange(6), np.arange(0)
    with pytest.raises(Misconfigured, match="no sites"):
        GivenSites({})
    with pytest.raises(Misconfigured, match="no sites"):
        Population(Pool(full), {})
    with pytest.raises(Misconfigured, match="site b has no training records"):
        GivenSites({"a": SiteData(full, full), "b": SiteData(empty, full)})
    with pytest.raises(Misconfigured, match="site b has no training records"):
        Population(Pool(full), {"a": SiteRows(rows[:3], rows[3:]), "b": SiteRows(none, rows)})
    with pytest.raises(Misconfigured, match="site a has no test records"):
        GivenSites({"a": SiteData(full, empty)})
    with pytest.raises(Misconfigured, match="site a has no test records"):
        Population(Pool(full), {"a": SiteRows(rows, none)})


def test_a_run_is_one_methods_and_seeds_and_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.sqlite"

    def claimed(method: str, seed: int) -> None:
        store = RunStore(path)
        try:
            claim(store, path, Claim(method, seed))
            Run(FedAvg(tabular_study()), GivenSites(federation(9, 9)), InProcess(), store).go()
        finally:
            store.close()

    claimed("fedavg", 0)
    claimed("fedavg", 0)
    for method, seed in (("ditto", 0), ("fedavg", 1)):
        with pytest.raises(IntegrityBroken, match="another method or seed"):
            claimed(method, seed)
        with pytest.raises(IntegrityBroken, match="another method or seed"):
            read_history(path, Claim(method, seed), title="")
    assert read_history(path, Claim("fedavg", 0), title="").complete
    monkeypatch.setattr("secureproto.simulation.run.__version__", "99")
    with pytest.raises(Conflict, match="another version"):
        claimed("fedavg", 0)


def test_a_run_that_is_claimed_and_not_begun_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "0.sqlite"
    store = RunStore(path)
    claim(store, path, Claim("fedavg", 0))
    for method, seed in (("ditto", 0), ("fedavg", 1)):
        with pytest.raises(IntegrityBroken, match="another method or seed"):
            claim(store, path, Claim(method, seed))
    claim(store, path, Claim("fedavg", 0))
    store.close()
