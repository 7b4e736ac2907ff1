"""The choice of the model that a site uses: by hand, against a slow oracle, and where one candidate is the best."""

from collections.abc import Mapping
from dataclasses import replace
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from torch import nn

from secureproto.errors import Misconfigured
from secureproto.learning import choice
from secureproto.learning.architectures import ModelSpec
from secureproto.learning.arrays import Arrays, load_arrays, to_arrays
from secureproto.learning.choice import KINDS, MARGIN, OWN_EPOCHS, UNTRAINED, Choice, Kind, Start
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import evaluate
from secureproto.learning.exchange import Received, contribution, initial_arrays, receive, site_round
from secureproto.learning.inference import NotFinite, predict_proba
from secureproto.learning.losses import cross_entropy_loss, round_loss
from secureproto.learning.model import Model, build
from secureproto.learning.seeding import generator, round_generator
from secureproto.learning.training import Diverged, Plan, train
from secureproto.study.schema import StudyFile
from support.learning import blobs, tabular_study, torch_generator

STUDY = tabular_study()
ROUND = 3
LONGER = 4
F64 = NDArray[np.float64]


def renamed(data: Records, shift: int) -> Records:
    """The same clouds, called by other names."""
    return Records(data.x, (data.y + shift) % 3)


def hazy(n: int, seed: int) -> Records:
    """Clouds that overlap: nobody can tell all of their records apart."""
    clear = blobs(n, seed=seed)
    noise = np.random.default_rng([seed, 1]).normal(size=clear.x.shape)
    return Records(clear.x + noise.astype(np.float32), clear.y)


def version(shift: int = 0, epochs: int = 30, study: StudyFile = STUDY, data: Records | None = None) -> Start:
    """A version of sites whose names of the clouds are `shift` further on, trained for so many epochs."""
    model, data = build(study), renamed(data or blobs(60, seed=5), shift)
    shared, head = initial_arrays(model)
    receive(model, shared, head)
    loss = cross_entropy_loss(3, 8)
    training = study.training.model_copy(update={"local_epochs": epochs})
    train(model, data, plan=Plan(training, loss), generator=torch_generator())
    arrays = contribution(model, data, loss=loss, reports_loss=False)
    extractor = {name: array for name, array in arrays.items() if name.startswith("extractor.")}
    head = {name: array for name, array in arrays.items() if name.startswith("head.")}
    return Start(study, Received(ROUND, {**shared, **extractor}, head), "a", longer=LONGER)


def crossed(start: Start, records: Records, folds: int = 5) -> Choice:
    return choice.cross_fitted(build(start.study), start, records=records, folds=np.arange(len(records)) % folds)


# ---- pick


def test_pick_by_hand() -> None:
    mixed = np.array([1.0, 1.0, 1.0, 1.0])
    better = mixed - [0.4, 0.6, 0.5, 0.5]  # mean 0.5, standard error 0.0408: far over the margin
    unsure = mixed - [2.0, -1.0, 2.0, -1.0]  # mean 0.5, standard error 0.866
    assert choice.pick({"mixed": mixed, "own": better}) == "own"
    assert choice.pick({"mixed": mixed, "own": unsure}) == "mixed"
    assert choice.pick({"mixed": mixed, "own": unsure}, 0.5) == "own"
    assert choice.pick({"mixed": mixed, "blend": better, "own": better}) == "blend"
    assert choice.pick({"local": better, "own": better, "mixed": mixed}) == "local"
    assert choice.pick(dict.fromkeys(reversed(KINDS), better)) == "mixed"
    assert choice.pick({kind: better for kind in KINDS if kind != "mixed"}) == "midway"
    assert choice.pick({"mixed": mixed, "local": mixed}) == "mixed"


def test_without_losses_and_with_one_record_the_version_stays_as_received() -> None:
    assert choice.pick({}) == "mixed"
    assert choice.pick({"mixed": np.empty(0), "own": np.empty(0)}) == "mixed"
    assert choice.pick({"mixed": np.array([9.0]), "own": np.array([0.1])}) == "mixed"


def slow_pick(losses: Mapping[Kind, list[float]], margin: float) -> Kind:
    def behind(one: Kind, other: Kind) -> bool:
        differences = [a - b for a, b in zip(losses[one], losses[other], strict=True)]
        mean = sum(differences) / len(differences)
        variance = sum((d - mean) ** 2 for d in differences) / (len(differences) - 1)
        return mean > margin * sqrt(variance / len(differences)) and mean > 0

    means = {kind: sum(each) / len(each) for kind, each in losses.items()}
    best = min((mean, KINDS.index(kind), kind) for kind, mean in means.items())[2]
    if "mixed" in losses and not behind("mixed", best):
        return "mixed"
    for kind in KINDS:
        if kind in losses and not behind(kind, best) and ("mixed" not in losses or behind("mixed", kind)):
            return kind
    raise AssertionError


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_candidate_that_fails_on_a_few_records_is_not_taken_for_its_wide_error(failures: int) -> None:
    """`longer` is the best candidate on all records but a few, which it is sure of and wrong about: these widen the
    standard error so far that it is within the margin of the best."""
    numbers = np.random.default_rng(0)
    mixed = 0.5 + 0.02 * numbers.normal(size=30)
    own = mixed - 0.1 + 0.01 * numbers.normal(size=30)
    longer = own.copy()
    longer[:failures] = 20.0
    assert choice.pick({"mixed": mixed, "own": own, "longer": longer}) == "own"
    assert choice.pick({"own": own, "longer": longer}) in ("own", "longer")  # without a version there is no bar


# margins of which no multiple is a difference exactly: how a tie falls is a matter of the last digit
@given(st.data(), st.integers(2, 6), st.sampled_from([0.0, 1.0123456789, 2.0123456789]))
def test_pick_against_the_slow_way(data: st.DataObject, n: int, margin: float) -> None:
    kinds = data.draw(st.sets(st.sampled_from(KINDS), min_size=1))
    # sixteenths: sums and means of them are exact in both ways
    number = st.integers(0, 32).map(lambda x: x / 16)
    losses = {kind: data.draw(st.lists(number, min_size=n, max_size=n)) for kind in sorted(kinds)}
    found = choice.pick({kind: np.array(each) for kind, each in losses.items()}, margin)
    assert found == slow_pick(losses, margin)


def test_log_losses_by_hand_and_against_scikit_learn() -> None:
    y = np.array([0, 1, 1])
    probabilities = np.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]])
    found = choice.log_losses(y, probabilities)
    np.testing.assert_allclose(found[:2], [log(2), -log(0.8)])
    assert np.isfinite(found[2])
    np.testing.assert_allclose(found.mean(), log_loss(y, probabilities), rtol=1e-6)


# ---- candidates


def test_the_candidates_against_plain_training() -> None:
    start, data, model = version(), blobs(30), build(STUDY)
    found = choice.candidates(model, start, records=data)
    receive(model, start.received.shared, start.received.head)
    mixed = to_arrays(model)
    training = STUDY.training.model_copy(update={"local_epochs": OWN_EPOCHS})
    plan = Plan(training, cross_entropy_loss(3, 8), part="head")
    train(model, data, plan=plan, generator=generator(STUDY.model.seed, STUDY.name, "a", ROUND, "choice", "own"))
    own = to_arrays(model)
    draws = round_generator(STUDY, site="a", round_number=ROUND)
    prototypes = receive(model, start.received.shared, start.received.head)
    site_round(model, data, study=STUDY, received=start.received, generator=draws)
    expected: dict[Kind, dict[str, NDArray[Any]]] = {"mixed": mixed, "own": own, "local": to_arrays(model)}
    further = Plan(STUDY.training, round_loss(STUDY.training, ROUND, prototypes))
    for step in range(1, LONGER):
        path = ("choice", "local", f"step {step}")
        train(model, data, plan=further, generator=generator(STUDY.model.seed, STUDY.name, "a", ROUND, *path))
    expected["longer"] = to_arrays(model)
    expected["blend"] = {name: np.asarray((mixed[name] + own[name]) / 2) for name in mixed}
    expected["midway"] = {name: np.asarray((mixed[name] + expected["longer"][name]) / 2) for name in mixed}
    assert tuple(found) == KINDS
    for kind in KINDS:
        for name, array in expected[kind].items():
            assert found[kind][name].dtype == array.dtype
            mean = kind in ("blend", "midway")
            np.testing.assert_allclose(found[kind][name], array, rtol=1e-6, atol=1e-7 if mean else 0)
    for name in mixed:
        assert np.array_equal(own[name], mixed[name]) is name.startswith("extractor.")


def test_a_blend_is_the_mean_of_numbers_and_the_larger_of_counts() -> None:
    first = {"w": np.array([1, 4], np.float32), "batches": np.array(3)}
    second = {"w": np.array([2, 0], np.float32), "batches": np.array(7)}
    found = choice.blended(first, second)
    assert found["w"].tolist() == [1.5, 2.0]
    assert found["w"].dtype == np.float32
    assert int(found["batches"]) == 7


@pytest.mark.parametrize(
    ("kinds", "longer", "trainings", "made"),
    [
        (("mixed",), LONGER, 0, ("mixed",)),
        (("mixed", "blend"), LONGER, 1, ("mixed", "blend")),
        (UNTRAINED, LONGER, 1, UNTRAINED),
        (("mixed", "local"), LONGER, 1, ("mixed", "local")),
        (("mixed", "midway"), LONGER, LONGER, ("mixed", "midway")),
        (("mixed", "longer"), 2, 2, ("mixed", "longer")),
        (KINDS, 0, 2, ("mixed", "local", "blend", "own")),
        (KINDS, LONGER, 1 + LONGER, KINDS),
    ],
)
def test_only_what_is_asked_for_is_made(
    kinds: tuple[Kind, ...], longer: int, trainings: int, made: tuple[Kind, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def counted(*given: Any, **rest: Any) -> object:
        done.append(rest["plan"].part)
        return train(*given, **rest)

    monkeypatch.setattr(choice, "train", counted)
    found = choice.candidates(build(STUDY), replace(version(), kinds=kinds, longer=longer), records=blobs(9))
    assert (tuple(found), len(done)) == (made, trainings)


def test_a_longer_training_that_diverges_on_the_way_leaves_the_first_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []

    def twice(*given: Any, **rest: Any) -> object:
        if rest["plan"].part == "all":
            done.append(rest)
            if len(done) > 2:
                raise Diverged("all")
        return train(*given, **rest)

    monkeypatch.setattr(choice, "train", twice)
    assert tuple(choice.candidates(build(STUDY), version(), records=blobs(9))) == ("mixed", "local", "blend", "own")


def test_each_fold_and_each_of_the_trainings_has_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def noting(*given: Any, generator: torch.Generator, **rest: Any) -> object:
        drawn.append(generator.initial_seed())
        return train(*given, generator=generator, **rest)

    monkeypatch.setattr(choice, "train", noting)
    for fold in (None, 0, 1, 2, 3):
        choice.candidates(build(STUDY), version(), records=blobs(9), fold=fold)
    assert len(set(drawn)) == len(drawn) == 5 * (1 + LONGER)


# ---- cross_fitted


@pytest.mark.parametrize("seed", range(4))
def test_a_good_version_stays_as_received(seed: int) -> None:
    start = version(data=hazy(600, seed=7))
    assert crossed(start, hazy(30, seed=seed)).kind == "mixed"


def test_a_site_that_calls_things_otherwise_gets_a_head_of_its_own() -> None:
    start, mine, test = version(shift=1), blobs(45, seed=1), blobs(30, seed=2)
    model, found = build(STUDY), crossed(start, mine)
    load_arrays(model, found.weights)
    assert found.kind in ("own", "local", "midway", "longer")
    assert evaluate(model, test).accuracy > 0.9
    receive(model, start.received.shared, start.received.head)
    assert evaluate(model, test).accuracy < 0.1
    assert (found.judged, found.classes) == (45, 3)


def test_where_the_version_has_learned_nothing_local_training_wins() -> None:
    study = tabular_study(training={"local_epochs": 60})
    start = replace(version(epochs=0, study=study), longer=0)
    assert crossed(start, blobs(60, seed=1)).kind == "local"
    assert crossed(replace(start, kinds=UNTRAINED), blobs(60, seed=1)).kind == "own"


def test_where_one_local_training_is_too_short_a_longer_one_wins() -> None:
    study = tabular_study(training={"local_epochs": 1})
    start = replace(version(epochs=0, study=study), kinds=("mixed", "local", "midway", "longer"), longer=60)
    mine, test, model = blobs(60, seed=1), blobs(60, seed=2), build(study)
    found = crossed(start, mine)
    load_arrays(model, found.weights)
    assert found.kind == "longer"
    assert evaluate(model, test).accuracy > 0.9
    shorter = crossed(replace(start, longer=0), mine)
    load_arrays(model, shorter.weights)
    assert set(shorter.losses) == {"mixed", "local"}
    assert evaluate(model, test).accuracy < 0.8


def test_a_record_is_judged_by_candidates_that_have_not_seen_it() -> None:
    start, data, model = version(shift=1), blobs(12), build(STUDY)
    folds = np.array([0, 7, 7, 2] * 3)
    losses, y = choice.out_of_fold(model, start, records=data, folds=folds)
    place = 0
    for fold in (0, 2, 7):
        inside = folds == fold
        rest = Records(data.x[~inside], data.y[~inside])
        fitted = choice.candidates(model, start, records=rest, fold=fold)
        for kind in KINDS:
            load_arrays(model, fitted[kind])
            expected = choice.log_losses(data.y[inside], predict_proba(model, data.x[inside]))
            np.testing.assert_array_equal(losses[kind][place : place + inside.sum()], expected)
        assert y[place : place + inside.sum()].tolist() == data.y[inside].tolist()
        place += inside.sum()
    assert place == len(y) == 12


def test_equal_arguments_give_equal_choices_whatever_the_model_was_before() -> None:
    start, data = version(shift=1), blobs(20)
    first = crossed(start, data)
    model = build(tabular_study(model={"seed": 99}))
    again = choice.cross_fitted(model, start, records=data, folds=np.arange(20) % 5)
    assert (first.kind, first.losses) == (again.kind, again.losses)
    assert all(np.array_equal(first.weights[name], again.weights[name]) for name in first.weights)


def test_what_is_chosen_was_fitted_on_all_records() -> None:
    start, data, model = version(shift=1), blobs(30), build(STUDY)
    found = crossed(start, data)
    assert found.kind != "mixed"
    whole = choice.candidates(model, start, records=data)[found.kind]
    assert all(np.array_equal(found.weights[name], whole[name]) for name in whole)


@pytest.mark.parametrize("records", [1, 6])
def test_records_in_one_fold_judge_nothing(records: int) -> None:
    found = crossed(version(shift=1), blobs(records), folds=1)
    assert (found.kind, found.losses, found.judged, found.classes) == ("mixed", {}, 0, 0)


def test_a_site_with_one_class_is_judged_on_one_class() -> None:
    data = blobs(30)
    mine = Records(data.x[data.y == 1], data.y[data.y == 1])
    found = crossed(version(), mine)
    assert (found.judged, found.classes) == (10, 1)


def test_a_candidate_that_diverges_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverges_in_the_head(model: Model, data: Records, *, plan: Plan, **rest: object) -> object:
        if plan.part == "head":
            raise Diverged("head.weight")
        return train(model, data, plan=plan, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(choice, "train", diverges_in_the_head)
    found = crossed(version(shift=1), blobs(30))
    assert set(found.losses) == {"mixed", "local", "midway", "longer"}
    monkeypatch.setattr(choice, "train", lambda *_, **__: (_ for _ in ()).throw(Diverged("all")))
    assert crossed(version(shift=1), blobs(30)).kind == "mixed"


def test_a_fold_that_leaves_a_batch_of_one_under_batch_norm_makes_no_candidate_and_no_error() -> None:
    """12 records in batches of 8 can be trained on, the 9 outside a fold of three cannot."""
    study = tabular_study(training={"batch_size": 8})
    extractor = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    model = Model(extractor, nn.Linear(8, 3), spec=ModelSpec((4,), 3, 8))
    start = Start(study, Received(ROUND, *initial_arrays(model)), "a", longer=LONGER)
    found = choice.cross_fitted(model, start, records=blobs(12), folds=np.arange(12) % 4)
    assert set(found.losses) == {"mixed", "blend", "own"}
    assert found.judged == 12


def test_a_candidate_that_diverges_on_all_records_only_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverges_on_all(model: Model, data: Records, *, plan: Plan, **rest: object) -> object:
        if len(data) == 30:
            raise Diverged("all")
        return train(model, data, plan=plan, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(choice, "train", diverges_on_all)
    found = crossed(version(shift=1), blobs(30))
    assert found.kind == "mixed"
    assert set(found.losses) == set(KINDS)


def test_a_candidate_whose_outputs_are_not_finite_is_none() -> None:
    model, start = build(STUDY), version()
    mixed = choice.candidates(model, replace(start, kinds=("mixed",)), records=blobs(6))["mixed"]
    spoilt = {name: array * np.float32("inf") for name, array in mixed.items()}
    assert set(choice.judge(model, {"mixed": mixed, "own": spoilt}, blobs(9))) == {"mixed"}


def test_a_candidate_that_is_none_on_one_fold_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = choice.candidates

    def without_local_on_fold_1(*given: Any, fold: int | None = None, **rest: Any) -> dict[Kind, Arrays]:
        found = candidates(*given, fold=fold, **rest)
        return {kind: each for kind, each in found.items() if kind in UNTRAINED or fold != 1}

    monkeypatch.setattr(choice, "candidates", without_local_on_fold_1)
    assert set(crossed(version(shift=1), blobs(30)).losses) == set(UNTRAINED)


def test_a_version_that_is_not_the_models_or_not_finite_is_refused() -> None:
    start = version()
    spoilt = {name: array * np.float32("inf") for name, array in start.received.head.items()}
    with pytest.raises(NotFinite):
        crossed(replace(start, received=replace(start.received, head=spoilt)), blobs(10))
    with pytest.raises(Misconfigured, match="does not fit the study"):
        crossed(replace(start, received=replace(start.received, head={})), blobs(10))


def test_the_margin_is_two_standard_errors() -> None:
    assert MARGIN == 2.0  # what ops/bench/results/choice.json was measured for
