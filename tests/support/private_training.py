"""Models, records and sources for tests of private training, and the slow oracle: one record after the other."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.learning.architectures import ModelSpec
from secureproto.learning.dataset import Records
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.learning.private.training import Sources
from secureproto.study.privacy import PrivateTraining

CLASSES, WIDTH = 3, 6
SHAPES: dict[str, tuple[int, ...]] = {"mlp": (5,), "cnn": (2, 9, 9)}


def wrap(extractor: nn.Module, shape: tuple[int, ...], head: nn.Module | None = None) -> Model:
    """A normalised model of `CLASSES` and `WIDTH`."""
    spec = ModelSpec(shape, CLASSES, WIDTH)
    return Model(extractor, head or nn.Linear(WIDTH, CLASSES), spec=spec, normalise=True)


def made(name: str, seed: int = 0) -> Model:
    """An MLP, or a CNN with all that is hard on a rule: groups, strides, dilation, no bias, GroupNorm, LayerNorm."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == "mlp":
            extractor = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, WIDTH, bias=False))
        else:
            extractor = nn.Sequential(
                *(nn.Conv2d(2, 8, 3, padding=1, stride=2), nn.GroupNorm(2, 8), nn.ReLU()),
                *(nn.Conv2d(8, 4, 2, groups=2, dilation=2, bias=False), nn.MaxPool2d(2, 1), nn.ReLU()),
                *(nn.Flatten(), nn.Linear(16, WIDTH), nn.ReLU()),
            )
        return wrap(extractor, SHAPES[name])


def loss_of(kind: str) -> PrototypeLoss:
    """`plain`: cross entropy. `aligned`: with prototypes, one class without."""
    if kind == "plain":
        return PrototypeLoss(GlobalPrototypes.absent(CLASSES, WIDTH), 0.0)
    values = np.random.default_rng(3).normal(size=(CLASSES, WIDTH))
    return PrototypeLoss(GlobalPrototypes(values, np.array([0, -1, 0])), 2.0)


def plan(**values: Any) -> PrivateTraining:
    """A plan of one step on everything, with `values` over it."""
    table: dict[str, Any] = {
        "noise_multiplier": 1.0, "max_grad_norm": 1.0, "sample_rate": 1.0, "steps": 1, "expected_batch": 8.0,
        "learning_rate": 0.1,
    }  # fmt: skip
    return PrivateTraining.model_validate({**table, **values})


def some_records(count: int, shape: tuple[int, ...], seed: int = 0) -> Records:
    """Random records."""
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(count, *shape)).astype(np.float32)
    return Records(x, numbers.integers(0, CLASSES, count))


def with_record(data: Records, x: NDArray[np.float32], y: int, at: int) -> Records:
    """One more, in front of row `at`."""
    return Records(np.insert(data.x, at, x, axis=0), np.insert(data.y, at, y))


class Everyone:
    """Draws every record, whatever the rate."""

    def draw(self, records: int, rate: float) -> NDArray[np.int64]:
        """All rows."""
        return np.arange(records)


class Zeros:
    """No noise, without a word."""

    scale = 0.0

    def take(self, count: int) -> NDArray[np.float64]:
        """Zeros."""
        return np.zeros(count)


def quiet() -> Sources:
    """Every record, no noise: what a step does to a model is then the clipped sum."""
    return Sources(Everyone(), Zeros())


def trained_vector(model: nn.Module) -> NDArray[np.float64]:
    """All trained tensors as one."""
    parts = [parameter.detach().numpy().ravel() for parameter in model.parameters() if parameter.requires_grad]
    return np.concatenate(parts).astype(np.float64)


def oracle_gradients(model: Model, loss: PrototypeLoss, data: Records) -> NDArray[np.float64]:
    """(n, P): the gradient of each record's loss, one after the other, by torch alone."""
    rows = [_gradient(model, loss, data, i) for i in range(len(data))]
    return np.stack(rows)


def oracle_sum(model: Model, loss: PrototypeLoss, data: Records, bound: float) -> NDArray[np.float64]:
    """The clipped sum, in float64."""
    gradients = oracle_gradients(model, loss, data)
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    total: NDArray[np.float64] = (gradients * np.minimum(1.0, bound / np.maximum(norms, 1e-30))).sum(axis=0)
    return total


def _gradient(model: Model, loss: PrototypeLoss, data: Records, row: int) -> NDArray[np.float64]:
    x, y = torch.from_numpy(data.x[row : row + 1]), torch.from_numpy(data.y[row : row + 1])
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    parts: tuple[Tensor, ...] = torch.autograd.grad(loss(model(x), y), parameters, materialize_grads=True)
    return torch.cat([part.reshape(-1) for part in parts]).double().numpy()
