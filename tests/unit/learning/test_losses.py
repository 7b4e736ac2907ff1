"""The two-term loss: the published vectors, its gradient, the mask, and what each record adds."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.learning.losses import PrototypeLoss, alignment_weight, cross_entropy_loss, round_loss
from support.learning import tabular_study

VECTORS = sorted((Path(__file__).parents[2] / "vectors" / "method").glob("*.json"))


def prototypes(values: Any, present: Any) -> GlobalPrototypes:
    return GlobalPrototypes(np.array(values, dtype=np.float64), np.where(present, 0, -1).astype(np.int64))


def batch(n: int = 6, classes: int = 3, width: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    logits = torch.randn(n, classes, generator=g, dtype=torch.float64)
    z = torch.randn(n, width, generator=g, dtype=torch.float64)
    return logits, z, torch.arange(n) % classes


def some_prototypes() -> GlobalPrototypes:
    return prototypes(np.arange(12.0).reshape(3, 4) / 7, [True, False, True])


def test_the_vectors_are_there() -> None:
    assert len(VECTORS) == 5


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_alignment_of_the_published_vectors(path: Path) -> None:
    vector = json.loads(path.read_text())
    inputs, expected = vector["inputs"], vector["expected"]
    z = torch.tensor(inputs["batch_embeddings"], dtype=torch.float64)
    y = torch.tensor(inputs["batch_labels"])
    loss = PrototypeLoss(prototypes(expected["global_prototypes"], expected["present"]), 1.0)
    _, alignment = loss.terms((torch.zeros(len(y), len(expected["present"]), dtype=torch.float64), z), y)
    assert abs(float(alignment.mean()) - expected["alignment_loss"]) <= 1e-12


def test_against_the_formula_written_out() -> None:
    logits, z, y = batch()
    p = some_prototypes()
    total = 0.0
    for row in range(len(y)):
        j = int(y[row])
        total += float(torch.logsumexp(logits[row], 0) - logits[row, j])
        if p.present[j]:
            total += 0.5 * sum((float(z[row, k]) - p.values[j, k]) ** 2 for k in range(4)) / 4
    assert float(PrototypeLoss(p, 0.5)((logits, z), y)) == pytest.approx(total / len(y), rel=1e-13)


def test_gradient() -> None:
    logits, z, y = batch()
    loss = PrototypeLoss(some_prototypes(), 0.7)
    assert torch.autograd.gradcheck(
        lambda a, b: loss((a, b), y), (logits.requires_grad_(), z.requires_grad_()), raise_exception=True
    )


def test_a_class_without_prototype_pulls_nothing_whatever_stands_in_its_row() -> None:
    logits, z, y = batch()
    z.requires_grad_()
    loss = PrototypeLoss(prototypes([[1.0] * 4, [np.nan] * 4, [2.0] * 4], [True, False, True]), 1.0)
    value = loss((logits, z), y)
    value.backward()
    assert torch.isfinite(value)
    assert z.grad is not None
    assert torch.equal(z.grad[y == 1], torch.zeros(2, 4, dtype=torch.float64))
    assert bool((z.grad[y != 1] != 0).any())


def test_round_0_is_plain_cross_entropy() -> None:
    logits, z, y = batch()
    loss = round_loss(tabular_study().training, 0, GlobalPrototypes.absent(3, 4))
    assert float(loss((logits, z), y)) == float(functional.cross_entropy(logits, y))
    assert float(cross_entropy_loss(3, 4)((logits, z), y)) == float(functional.cross_entropy(logits, y))


def test_reductions_agree_and_can_be_set_between_calls() -> None:
    logits, z, y = batch()
    loss = PrototypeLoss(some_prototypes(), 1.0)
    mean = loss((logits, z), y)
    loss.reduction = "none"
    each = loss((logits, z), y)
    loss.reduction = "sum"
    assert each.shape == (6,)
    torch.testing.assert_close(mean, each.mean(), rtol=1e-14, atol=0)
    torch.testing.assert_close(loss((logits, z), y), each.sum(), rtol=1e-14, atol=0)


def test_a_record_s_loss_does_not_depend_on_the_others() -> None:
    logits, z, y = batch()
    loss = PrototypeLoss(some_prototypes(), 1.0, reduction="none")
    together = loss((logits, z), y)
    for row in range(len(y)):
        alone = loss((logits[row : row + 1], z[row : row + 1]), y[row : row + 1])
        torch.testing.assert_close(alone[0], together[row], rtol=1e-14, atol=0)


def test_mu_grows_linearly_to_its_value() -> None:
    training = tabular_study(
        training={"alignment_weight": 2.0, "alignment_warmup_rounds": 4}, rounds={"total": 9}
    ).training
    weights = [alignment_weight(training, number) for number in range(7)]
    assert weights == [0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert all(a <= b for a, b in pairwise(weights))
    assert alignment_weight(tabular_study().training, 0) == 1.0


def test_a_negative_weight_is_misuse() -> None:
    with pytest.raises(ValueError, match="negative"):
        PrototypeLoss(some_prototypes(), -1.0)
