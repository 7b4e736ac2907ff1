"""FedAvg with fine-tuning: FedAvg's own run, read where its sites have trained."""

from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.fedavg_ft import FedAvgFineTuned, fine_tuned
from secureproto.simulation.history import RECEIVED, TUNED
from secureproto.simulation.population import GivenSites
from secureproto.simulation.run import RunOptions
from support.learning import tabular_study
from support.method_rounds import federation
from support.simulated import ended

STUDY, SITES = tabular_study(), GivenSites(federation(20, 9, 14))


def test_its_model_is_the_trained_one_and_no_other_is_shown() -> None:
    run = ended(FedAvg(STUDY), SITES).history
    found = fine_tuned(run, "fedavg-ft:learning_rate=0.1")
    assert (found.method, found.title) == ("fedavg-ft:learning_rate=0.1", "FedAvg + fine-tuning")
    assert (found.seed, found.complete, len(found.rounds)) == (run.seed, True, len(run.rounds))
    for before, after in zip(run.rounds, found.rounds, strict=True):
        for site, points in ((name, round_.points) for name, round_ in before.sites.items()):
            tuned = points[TUNED]
            assert after.sites[site].points == {TUNED: tuned}
            assert after.sites[site].bytes_sent == before.sites[site].bytes_sent
    assert any(site.points[RECEIVED] != site.points[TUNED] for site in run.rounds[0].sites.values())


def test_rounds_without_scores_stay_without() -> None:
    run = ended(FedAvg(STUDY), SITES, options=RunOptions(evaluate_every=2)).history
    found = fine_tuned(run, "fedavg-ft")
    assert [bool(record.sites["a"].points) for record in found.rounds] == [True, False, True, True]


def test_its_rounds_are_those_of_fedavg() -> None:
    assert FedAvgFineTuned.runs_as == "fedavg"
    assert ended(FedAvgFineTuned(STUDY), SITES).history == ended(FedAvg(STUDY), SITES).history
