"""FedRep against plain torch: first the head with the representation fixed, then the representation."""

from unittest.mock import patch

import numpy as np
import pytest

from secureproto.learning.model import build
from secureproto.learning.training import Plan, TrainingSummary, train
from secureproto.simulation.baselines import parts
from secureproto.simulation.baselines.fedrep import FedRep
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites
from support.method_rounds import (
    EXTRACTOR,
    HEAD,
    Weights,
    assert_close,
    disagreeing,
    federation,
    first_weights,
    play,
    slow_mean,
    slow_training,
    uneven_study,
    without_class,
)


def test_two_rounds_against_an_oracle() -> None:
    study, sites = uneven_study(), federation(20, 9)
    sites["b"] = without_class(sites["b"], 1)
    first = first_weights(study)
    base = {name: first[name] for name in EXTRACTOR}
    heads = {site: {name: first[name] for name in HEAD} for site in sites}
    for number in range(2):
        models: dict[str, Weights] = {}
        for site, data in sites.items():
            weights, path = {**base, **heads[site]}, (site, number)
            weights = slow_training(
                weights, data.train, study=study, path=(*path, "head"), part=HEAD, epochs=3
            )  # 2. the head, by an order of its own
            models[site] = slow_training(weights, data.train, study=study, path=path, part=EXTRACTOR)  # 3.
        base = slow_mean(models, sites, EXTRACTOR)
        heads = {site: {name: models[site][name] for name in HEAD} for site in sites}
    played = play(FedRep(study, head_epochs=3), sites, 2)
    assert_close(played.shared, base)
    for site in sites:
        assert_close(played.kept[site], heads[site])


def test_each_part_is_frozen_while_the_other_is_trained() -> None:
    study, sites, seen = uneven_study(), federation(20), list[tuple[str, set[str], int | None]]()

    def spy(model: object, *rest: object, plan: Plan, **more: object) -> TrainingSummary:
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}  # type: ignore[attr-defined]
        summary = train(model, *rest, plan=plan, **more)  # type: ignore[arg-type]
        after = model.state_dict()  # type: ignore[attr-defined]
        changed = {name for name in before if not bool((before[name] == after[name]).all())}
        seen.append((plan.part, changed, plan.training.local_epochs))
        return summary

    with patch.object(parts, "train", spy):
        play(FedRep(study, head_epochs=3), sites, 1)
    assert seen == [("head", HEAD, 3), ("extractor", EXTRACTOR, 2)]


def test_head_epochs_stand_beside_local_steps() -> None:
    study = uneven_study(training={"local_epochs": None, "local_steps": 4})
    data = federation(20)["a"]
    method = FedRep(study, head_epochs=2)
    played = play(method, {"a": data}, 1)
    update = method.train(build(study), data, played.visit("a"))
    assert update.summary is not None
    assert update.summary.steps == 2 * 3 + 4  # 20 records in batches of 8


def test_the_extractor_is_sent_and_nothing_else() -> None:
    played = play(FedRep(uneven_study()), federation(20, 9), 2)
    for sent in (*played.sent[0].values(), *played.sent[1].values()):
        assert set(sent.arrays) == EXTRACTOR
    assert set(played.shared) == EXTRACTOR
    assert all(set(kept) == HEAD for kept in played.kept.values())


def test_one_site_trains_on_with_what_it_has() -> None:
    study, sites = uneven_study(), federation(20)
    played = play(FedRep(study), sites, 1)
    np.testing.assert_array_equal(
        played.shared["extractor.1.weight"], played.sent[0]["a"].arrays["extractor.1.weight"]
    )


def test_heads_of_one_s_own_serve_sites_that_disagree() -> None:
    study, sites = uneven_study(rounds={"total": 6}), disagreeing(30, 30, 30)
    found = outcomes(FedRep(study), GivenSites(sites))
    assert min(outcome.received.accuracy for outcome in found.values()) > 0.9


def test_no_head_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match="head_epochs is a whole number from 1 on"):
        FedRep(uneven_study(), head_epochs=0)
