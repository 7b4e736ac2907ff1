"""The majority class: for every record, with certainty, and by the training labels."""

import numpy as np

from secureproto.learning.dataset import Records
from secureproto.simulation.baselines.majority import Majority
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites, SiteData
from support.learning import tabular_study
from support.method_rounds import federation, play


def test_by_hand() -> None:
    y = np.array([2, 2, 0], dtype=np.int64)
    data = SiteData(Records(np.zeros((3, 4), np.float32), y), Records(np.zeros((4, 4), np.float32), y[[0, 2, 2, 2]]))
    found = outcomes(Majority(tabular_study()), GivenSites({"north": data}))["north"]
    assert found.received == found.tuned
    assert (found.received.accuracy, found.received.balanced_accuracy) == (0.25, 0.5)


def test_over_all_classes_its_balanced_accuracy_is_one_over_them_and_its_auc_a_half() -> None:
    for found in outcomes(Majority(tabular_study()), GivenSites(federation(20, 9))).values():
        assert (found.tuned.balanced_accuracy, found.tuned.auc) == (1 / 3, 0.5)


def test_nothing_is_sent_or_kept() -> None:
    played = play(Majority(tabular_study()), federation(20, 9), 2)
    assert all(sent.size == 0 for sent in played.sent[0].values())
    assert (played.shared, played.kept, played.personal) == ({}, {}, {})
