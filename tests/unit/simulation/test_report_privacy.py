"""The curve of accuracy against ε: which methods are on it, in which order, with what beside it."""

import pytest

from secureproto.simulation.definition import Definition
from secureproto.simulation.heart.published import PUBLISHED, published_on
from secureproto.simulation.report.drawing import looks
from secureproto.simulation.report.privacy import curve_of, epsilon_of, privacy_curve
from secureproto.simulation.results import Summary, summarise
from support.histories import run

AT = {
    "protoaligned:epsilon=10": 0.9,
    "protoaligned:epsilon=0.5:learning_rate=0.1": 0.7,
    "protoaligned:epsilon=2": 0.8,
}
BESIDE = {"local": 0.75, "majority": 0.6, "protoaligned:privacy=off": 0.95, "fedavg": 0.85}


def summary(methods: dict[str, float]) -> Summary:
    return summarise(
        [run(label, seed, {"a": at, "b": at - 0.02 * seed}) for label, at in methods.items() for seed in (0, 1)]
    )


@pytest.mark.parametrize(
    ("label", "epsilon"),
    [
        ("protoaligned:epsilon=0.5", 0.5),
        ("protoaligned:mu=1:epsilon=2", 2.0),
        ("protoaligned", None),
        ("local", None),
    ],
)
def test_an_epsilon_is_read_from_the_label(label: str, epsilon: float | None) -> None:
    assert epsilon_of(label) == epsilon


def test_the_curve_goes_from_the_smallest_epsilon_up_as_received() -> None:
    curve = curve_of(summary({**AT, **BESIDE}), "accuracy")
    assert [epsilon for epsilon, _ in curve] == [0.5, 2.0, 10.0]
    # as received is 0.1 lower than after local training; seed 1's second site another 0.02
    assert [round(mean.mean, 3) for _, mean in curve] == [0.595, 0.695, 0.795]
    assert all(mean.deviation for _, mean in curve)


def test_the_plot_names_what_lies_beside_it() -> None:
    found = summary({**AT, **BESIDE})
    (plot,) = privacy_curve(found, looks([m.label for m in found.methods], "local"), PUBLISHED)
    for text in ("under privacy", "local", "majority", "protoaligned:privacy=off", "published, FLamby 2022", ">0.5<"):
        assert text in plot.svg
    assert "fedavg" not in plot.svg
    assert "ε 0.5: 0.595; ε 2: 0.695; ε 10: 0.795" in plot.alternative


@pytest.mark.parametrize("methods", [BESIDE, {**BESIDE, "protoaligned:epsilon=1": 0.8}], ids=["none", "one"])
def test_one_point_is_no_curve(methods: dict[str, float]) -> None:
    found = summary(methods)
    assert privacy_curve(found, looks([m.label for m in found.methods], "local")) == []


def test_published_figures_stand_only_beside_their_own_split() -> None:
    definition = Definition(
        study="heart",
        study_digest="",
        data=("heart",),
        pool_digest="",
        partition="natural",
        partition_digest="",
        split="given",
        rounds=10,
        evaluate_every=1,
        choice="no",
    )
    assert published_on(definition)
    for other in ({"split": "stratified"}, {"data": ("digits",)}, {"partition": "iid"}):
        assert not published_on(definition.model_copy(update=other))
