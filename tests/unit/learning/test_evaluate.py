"""Scores against their definitions, what is said when a class is missing, and the loss for the stopping rule."""

import numpy as np
import pytest
import torch

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.errors import Misconfigured
from secureproto.learning import inference
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import evaluate, majority_class, mean_loss, score
from secureproto.learning.inference import predict_proba
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import build
from support.learning import blobs, tabular_study


def labels(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def binary(*ones: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array([[1 - p, p] for p in ones])


def test_binary_scores_by_hand() -> None:
    found = score(labels(0, 0, 0, 1), binary(0.1, 0.2, 0.6, 0.55))
    assert found.accuracy == 0.75
    assert found.balanced_accuracy == pytest.approx((2 / 3 + 1) / 2)
    assert found.auc == pytest.approx(2 / 3)  # pairs in which the diseased stands higher
    assert (found.n, found.missing_classes) == (4, ())


def test_macro_auc_is_the_mean_over_the_classes() -> None:
    numbers = np.random.default_rng(0)
    y = labels(*([0] * 10 + [1] * 20 + [2] * 5))
    p = numbers.dirichlet(np.ones(3), size=35)

    def one_vs_rest(j: int) -> float:
        mine, rest = p[y == j, j], p[y != j, j]
        return float((mine[:, None] > rest[None, :]).mean())

    assert score(y, p).auc == pytest.approx(np.mean([one_vs_rest(j) for j in range(3)]), rel=1e-12)


def test_a_missing_class_is_left_out_of_the_macro_auc_and_named() -> None:
    found = score(labels(0, 0, 2), np.array([[0.8, 0.1, 0.1], [0.1, 0.85, 0.05], [0.3, 0.1, 0.6]]))
    assert found.auc == pytest.approx((1 / 2 + 1) / 2)  # class 0 stands higher in one of two pairs, class 2 in both
    assert found.missing_classes == (1,)
    assert found.balanced_accuracy == pytest.approx((0.5 + 1) / 2)
    assert score(labels(2, 2), np.full((2, 3), 1 / 3)).auc is None  # nothing to stand higher than
    one = score(labels(1, 1), binary(0.9, 0.1))
    assert (one.auc, one.accuracy, one.missing_classes) == (None, 0.5, (0,))


def test_no_records_is_said() -> None:
    with pytest.raises(Misconfigured, match="no test records"):
        score(labels(), np.empty((0, 2)))
    with pytest.raises(Misconfigured, match="no records"):
        mean_loss(build(tabular_study()), blobs(0), PrototypeLoss(GlobalPrototypes.absent(3, 8), 1.0))


def test_majority_class_and_its_ties() -> None:
    assert majority_class(labels(2, 2, 1), 4) == 2
    assert majority_class(labels(2, 1), 4) == 1
    assert majority_class(labels(), 4) == 0


def test_probabilities_sum_to_one_slice_by_slice() -> None:
    model, data = build(tabular_study()), blobs(inference.ROWS + 3)
    p = predict_proba(model, data.x)
    assert p.shape == (len(data), 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    with torch.no_grad():
        expected = torch.softmax(model(torch.tensor(data.x[-3:]))[0], dim=1).numpy()
    np.testing.assert_allclose(p[-3:], expected, rtol=1e-5)
    assert predict_proba(model, data.x[:0]).shape == (0, 3)
    assert evaluate(model, data).n == len(data)


def test_outputs_that_are_not_finite_are_said() -> None:
    model = build(tabular_study())
    with torch.no_grad():
        next(model.head.parameters()).fill_(torch.nan)
    with pytest.raises(Misconfigured, match="not finite"):
        predict_proba(model, blobs(3).x)


def test_an_abandoned_pass_leaves_the_mode_and_gradients_as_they_were() -> None:
    model = build(tabular_study()).train()
    for _ in inference.outputs(model, blobs(3 * inference.ROWS).x):
        assert model.training
        assert torch.is_grad_enabled()
        break


def test_the_site_s_loss_is_that_of_all_its_records() -> None:
    model, data = build(tabular_study()), blobs(inference.ROWS + 40)
    loss = PrototypeLoss(GlobalPrototypes(np.ones((3, 8)), np.zeros(3, dtype=np.int64)), 2.0)
    with torch.no_grad():
        expected = float(loss(model(torch.tensor(data.x)), torch.tensor(data.y)))
    assert mean_loss(model, data, loss) == pytest.approx(expected, rel=1e-5)
    shifted = Records(data.x, (data.y + 1) % 3)
    assert mean_loss(model, shifted, loss) != pytest.approx(expected, rel=1e-3)
