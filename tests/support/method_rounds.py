"""Rounds of an algorithm played by hand, and local training the slow way: plain torch in float64, no code of ours.

The slow way knows one model, that of `tabular_study`: z = ReLU(W x + b) and logits V z + a.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from secureproto.learning.dataset import Records
from secureproto.learning.exchange import ArrayMap
from secureproto.learning.model import build
from secureproto.learning.seeding import generator
from secureproto.simulation.method import Central, Combined, Method, Predictor, Sent, Visit
from secureproto.simulation.population import SiteData
from secureproto.study.schema import StudyFile
from support.learning import blobs, tabular_study

Weights = dict[str, Tensor]
Loss = Callable[[Weights, Tensor, Tensor], Tensor]  # (weights, x, y) → a scalar

EXTRACTOR = {"extractor.1.weight", "extractor.1.bias"}
HEAD = {"head.weight", "head.bias"}


def uneven_study(**sections: Any) -> StudyFile:
    """A study with everything that a local training has: epochs, small batches, momentum, weight decay."""
    training = {"local_epochs": 2, "batch_size": 8, "learning_rate": 0.1, "momentum": 0.5, "weight_decay": 0.01}
    return tabular_study(**{**sections, "training": {**training, **sections.get("training", {})}})


def federation(*sizes: int) -> dict[str, SiteData]:
    """Sites a, b, … with so many records."""
    return {chr(ord("a") + i): SiteData(blobs(size, seed=i), blobs(12, seed=100 + i)) for i, size in enumerate(sizes)}


def without_class(data: SiteData, absent: int) -> SiteData:
    """The site without its training records of a class."""
    kept = data.train.y != absent
    return SiteData(Records(data.train.x[kept], data.train.y[kept]), data.test)


def disagreeing(*sizes: int) -> dict[str, SiteData]:
    """Sites that call the same clouds by other names: one head for all cannot serve them."""
    return {
        site: SiteData(*(Records(part.x, (part.y + i) % 3) for part in (data.train, data.test)))
        for i, (site, data) in enumerate(federation(*sizes).items())
    }


@dataclass(eq=False)
class Played:
    """What is held after some rounds; `sent` and `combined` by round."""

    shared: ArrayMap
    first: ArrayMap
    personal: dict[str, ArrayMap] = field(default_factory=dict)
    kept: dict[str, ArrayMap] = field(default_factory=dict)
    sent: list[dict[str, Sent]] = field(default_factory=list)
    combined: list[Combined] = field(default_factory=list)
    trained: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def visit(self, site: str, number: int | None = None) -> Visit:
        """What a site has at the start of the next round."""
        number = len(self.combined) if number is None else number
        return Visit(site, number, self.shared, self.personal.get(site, self.first), self.kept.get(site, {}))


def play(
    method: Method, sites: Mapping[str, SiteData], rounds: int, *, chosen: Sequence[Sequence[str]] = ()
) -> Played:
    """Rounds 0 … of a method, in which all sites take part, or those of `chosen`.

    `trained`: each site's predictions on its test records after its last training.
    """
    model = build(method.study)
    played = Played(*method.begin(model))
    for number in range(rounds):
        names = sorted(chosen[number] if chosen else sites)
        sent: dict[str, Sent] = {}
        for site in names:
            update = method.train(model, sites[site], played.visit(site, number))
            played.trained[site] = update.predictor(sites[site].test.x)
            sent[site] = update.sent
            if update.kept:
                played.kept[site] = update.kept
        combined = method.combine(played.shared, names, iter(sent.items()))
        if isinstance(method, Central):
            combined = method.learn(model, played.shared, [sites[site].train for site in names], number)
        played.sent.append(sent)
        played.combined.append(combined)
        played.shared = combined.shared
        played.personal.update(combined.personal)
    return played


def used(method: Method, sites: Mapping[str, SiteData], played: Played, site: str) -> NDArray[np.float64]:
    """Predictions on the site's test records by the model that it would use now."""
    predictor: Predictor = method.use(build(method.study), sites[site], played.visit(site))
    return predictor(sites[site].test.x)


def weights_of(arrays: ArrayMap) -> Weights:
    """In float64."""
    return {name: torch.tensor(array, dtype=torch.float64) for name, array in arrays.items()}


def first_weights(study: StudyFile) -> Weights:
    """w_0."""
    return {name: tensor.detach().double().clone() for name, tensor in build(study).state_dict().items()}


def embed(weights: Weights, x: Tensor) -> Tensor:
    """z."""
    return functional.relu(x @ weights["extractor.1.weight"].T + weights["extractor.1.bias"])


def logits(weights: Weights, x: Tensor) -> Tensor:
    """V z + a."""
    return embed(weights, x) @ weights["head.weight"].T + weights["head.bias"]


def cross_entropy(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
    """Mean of −log p(y)."""
    return -torch.log_softmax(logits(weights, x), dim=1)[torch.arange(len(y)), y].mean()


def as_torch(data: Records) -> tuple[Tensor, Tensor]:
    """(x in float64, y)."""
    return torch.tensor(data.x, dtype=torch.float64), torch.tensor(data.y)


def slow_training(
    weights: Weights,
    data: Records,
    *,
    study: StudyFile,
    path: tuple[str | int, ...],
    loss: Loss = cross_entropy,
    part: set[str] | None = None,
    epochs: int | None = None,
) -> Weights:
    """SGD with momentum and weight decay, step by step; `path` names the order of the records, `part` the tensors
    that move (all without it)."""
    section, (x, y) = study.training, as_torch(data)
    numbers = generator(study.model.seed, study.name, *path)
    torch.randint(2**31, (), generator=numbers)  # comes before the first order
    moving = sorted(weights if part is None else part)
    speed = {name: torch.zeros_like(weights[name]) for name in moving}
    weights = dict(weights)
    for _ in range(section.local_epochs or 0 if epochs is None else epochs):
        order = torch.randperm(len(y), generator=numbers)
        for rows in torch.split(order, section.batch_size):
            leaves = {name: tensor.clone().requires_grad_(name in moving) for name, tensor in weights.items()}
            gradients = torch.autograd.grad(loss(leaves, x[rows], y[rows]), [leaves[name] for name in moving])
            for name, gradient in zip(moving, gradients, strict=True):
                full = gradient + section.weight_decay * weights[name]
                speed[name] = section.momentum * speed[name] + full
                weights[name] = weights[name] - section.learning_rate * speed[name]
    return weights


def slow_mean(models: Mapping[str, Weights], sites: Mapping[str, SiteData], names: set[str]) -> Weights:
    """Σ_k (n_k / n) w_k of the named tensors."""
    total = sum(len(sites[site].train) for site in models)
    return {
        name: torch.stack([len(sites[site].train) / total * models[site][name] for site in models]).sum(dim=0)
        for name in sorted(names)
    }


def assert_close(found: ArrayMap, expected: Weights, *, names: set[str] | None = None) -> None:
    """Equal up to the rounding of float32, over exactly the expected tensors (or those named)."""
    names = set(expected) if names is None else names
    assert set(found) >= names
    for name in sorted(names):
        np.testing.assert_allclose(found[name], expected[name].numpy(), rtol=2e-4, atol=2e-5, err_msg=name)
