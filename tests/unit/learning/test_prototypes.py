"""Class sums against a slow oracle, in evaluation mode, and their fit with what the server takes."""

import numpy as np
import torch

from secureproto.aggregation.prototypes import local_means
from secureproto.learning import inference
from secureproto.learning.dataset import Records
from secureproto.learning.model import build
from secureproto.learning.prototypes import class_sums
from support.learning import blobs, tabular_study


def test_against_a_slow_oracle_over_more_than_one_slice() -> None:
    model, data = build(tabular_study()), blobs(2 * inference.ROWS + 5)
    found = class_sums(model, data, 3)
    assert found.dtype == np.float64
    oracle = np.zeros((3, 9))
    with torch.no_grad():
        for x, y in zip(data.x, data.y, strict=True):
            oracle[y, :8] += model(torch.tensor(x[None]))[1][0].numpy().astype(np.float64)
            oracle[y, 8] += 1
    np.testing.assert_allclose(found, oracle, rtol=1e-6)
    assert found[:, 8].tolist() == oracle[:, 8].tolist()


def test_a_class_not_held_is_a_row_of_zeros() -> None:
    data = blobs(9)
    kept = data.y != 1
    found = class_sums(build(tabular_study()), Records(data.x[kept], data.y[kept]), 3)
    assert found[1].tolist() == [0.0] * 9
    assert found[:, 8].tolist() == [3.0, 0.0, 3.0]


def test_one_record_and_none() -> None:
    model = build(tabular_study())
    assert class_sums(model, blobs(1), 3)[:, 8].tolist() == [1.0, 0.0, 0.0]
    assert not class_sums(model, blobs(0), 3).any()


def test_dropout_is_off_gradients_too_and_the_mode_comes_back() -> None:
    model = build(tabular_study(model={"name": "support.tiny_model:factory"}), ["support.tiny_model:factory"])
    model.train()
    first = class_sums(model, blobs(40), 3)
    assert model.training
    assert first.tobytes() == class_sums(model.eval(), blobs(40), 3).tobytes()
    with torch.no_grad():
        z = model(torch.tensor(blobs(40).x))[1].numpy()
    np.testing.assert_allclose(first[:, :-1].sum(axis=0), z.sum(axis=0), rtol=1e-5)
    model.train()
    assert class_sums(model, blobs(40), 3).tobytes() == first.tobytes()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_means_are_the_class_means() -> None:
    model, data = build(tabular_study()), blobs(30)
    means = local_means(class_sums(model, data, 3)[None])[0]
    with torch.no_grad():
        z = model(torch.tensor(data.x))[1].numpy()
    for j in range(3):
        np.testing.assert_allclose(means[j], z[data.y == j].mean(axis=0), rtol=1e-5)
