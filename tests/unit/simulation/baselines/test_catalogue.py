"""Methods by name and spec: what is written is what runs, and what does not exist is refused with what does."""

import pytest

from secureproto.errors import Misconfigured
from secureproto.simulation.baselines.catalogue import METHODS, make
from secureproto.simulation.baselines.fedprox import FedProx
from secureproto.simulation.method import Method
from support.learning import tabular_study

STUDY = tabular_study(relation={"normalisation": "softmax", "temperature": 0.5})


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_made_by_its_name_with_its_defaults(name: str) -> None:
    method: Method = make(name, STUDY)
    assert method.study == STUDY
    assert method.title
    for key, values in method.grid.items():
        for value in values:
            make(f"{name}:{key}={value}", STUDY)  # every value that tuning tries is one that the method takes


def test_own_and_training_keys_are_set_and_the_rest_stays() -> None:
    method = make("fedprox:mu=0.5:learning_rate=1:local_epochs=7", STUDY)
    assert isinstance(method, FedProx)
    training = method.study.training
    assert (method.mu, training.learning_rate, training.local_epochs) == (0.5, 1.0, 7)
    assert training.batch_size == STUDY.training.batch_size
    assert method.study.relation == STUDY.relation


def test_steps_take_the_place_of_epochs() -> None:
    training = make("local:local_steps=9", STUDY).study.training
    assert (training.local_steps, training.local_epochs) == (9, None)


@pytest.mark.parametrize(
    ("spec", "relation"),
    [
        ("protoaligned:temperature=0.2", ("softmax", 0.2, None)),
        ("protoaligned:normalisation=power:power=16", ("power", None, 16)),
        ("protoaligned:normalisation=row_sum", ("row_sum", None, None)),
        ("protoaligned:normalisation=evidence", ("evidence", None, None)),
    ],
)
def test_the_relation_is_ours_alone(spec: str, relation: tuple[object, ...]) -> None:
    found = make(spec, STUDY).study.relation
    assert (found.normalisation, found.temperature, found.power) == relation
    with pytest.raises(Misconfigured, match="no key"):
        make(spec.replace("protoaligned", "fedavg"), STUDY)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("fedprix", "no method 'fedprix'"),
        ("fedprox:mu", "'mu' is not key=value"),
        ("fedprox:nu=1", "no key 'nu'"),
        ("fedprox:mu=little", "mu is a number, not 'little'"),
        ("fedrep:head_epochs=1.5", "head_epochs is a whole number"),
        ("local:learning_rate=-1", "learning_rate: "),
        ("fedavg:learning_rate=1e39", "learning_rate: "),
        ("pooled:weight_decay=1e39", "weight_decay: "),
        ("fedprox:mu=1e39", "mu is a number from 0 on, up to 1e38"),
        ("ditto:lam=3.5e38", "lam is a number from 0 on, up to 1e38"),
        ("fedpac:head_learning_rate=1e39", "head_learning_rate is a number over 0, up to 1e38"),
        ("fedproto:lam=1e39", "lam is a number from 0 on, up to 1e38"),
        ("protoaligned:power=2", "power"),
        ("fedproto:inference=guess", "inference"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(spec: str, told: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        make(spec, STUDY)
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(Misconfigured) as caught:
        make("fedprix", STUDY)
    assert caught.value.hint == "did you mean fedprox?"


def test_a_study_with_a_scale_of_its_own_may_be_run_with_another_normalisation() -> None:
    study = tabular_study(relation={"normalisation": "evidence", "evidence_scale": 0.4})
    found = make("protoaligned:normalisation=row_sum", study).study.relation
    assert (found.normalisation, found.evidence_scale) == ("row_sum", None)


@pytest.mark.parametrize(
    "parts",
    [("normalisation=softmax", "temperature=0.2"), ("normalisation=power", "power=16"), ("lam=2.0", "local_steps=9")],
)
def test_the_order_of_keys_means_nothing(parts: tuple[str, str]) -> None:
    name = "ditto" if parts[0] == "lam=2.0" else "protoaligned"
    first, second = (make(":".join((name, *order)), STUDY) for order in (parts, parts[::-1]))
    assert first == second
    relation = make("protoaligned:temperature=0.2:normalisation=softmax", STUDY).study.relation
    assert relation.temperature == 0.2


@pytest.mark.parametrize("keys", [("local_steps=9", "local_epochs=3"), ("local_epochs=3", "local_steps=9")])
def test_epochs_and_steps_cannot_both_be(keys: tuple[str, str]) -> None:
    with pytest.raises(Misconfigured, match="cannot both be"):
        make(":".join(("local", *keys)), STUDY)
