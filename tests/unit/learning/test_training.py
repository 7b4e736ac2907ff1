"""Local training: it learns, keeps every record, repeats itself to the last bit, and says what went wrong."""

import copy
from contextlib import nullcontext
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.errors import Misconfigured
from secureproto.learning.architectures import ModelSpec
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import evaluate
from secureproto.learning.losses import PrototypeLoss, cross_entropy_loss
from secureproto.learning.model import Model, build, to_arrays
from secureproto.learning.prototypes import class_sums
from secureproto.learning.training import Diverged, Plan, TrainingSummary, batches, train
from secureproto.study.schema import StudyFile, TrainingSection
from support.learning import blobs, tabular_study, torch_generator


def run(
    study: StudyFile, data: Records, seed: int = 0, loss: PrototypeLoss | None = None
) -> tuple[Model, TrainingSummary]:
    model = build(study, ["support.tiny_model:factory"])
    loss = loss or cross_entropy_loss(3, 8)
    return model, train(model, data, plan=Plan(study.training, loss), generator=torch_generator(seed))


def flat(model: nn.Module) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.concatenate([array.ravel() for array in to_arrays(model).values()])


def rows_of(records: int, seed: int = 0, **training: int) -> list[list[int]]:
    section = TrainingSection.model_validate({"batch_size": 4, "learning_rate": 0.1, **training})
    return [rows.tolist() for rows in batches(records, section, torch_generator(seed))]


def test_it_overfits_a_tiny_set() -> None:
    data = blobs(12)
    study = tabular_study(training={"local_epochs": 200, "batch_size": 5, "learning_rate": 0.2})
    model, summary = run(study, data)
    assert evaluate(model, data).accuracy == 1.0
    assert summary.cross_entropy < 0.3
    assert not model.training


def test_alignment_draws_embeddings_to_the_prototypes() -> None:
    data = blobs(30)
    target = GlobalPrototypes(np.eye(3, 8) * 2.0, np.zeros(3, dtype=np.int64))
    study = tabular_study(training={"local_epochs": 60})

    def distance(weight: float) -> float:
        model, _ = run(study, data, loss=PrototypeLoss(target, weight))
        sums = class_sums(model, data, 3)
        return float(np.abs(sums[:, :-1] / sums[:, -1:] - target.values).max())

    assert distance(5.0) < 0.3
    assert distance(0.0) > 2 * distance(5.0)


def test_equal_seeds_give_equal_weights_also_with_dropout() -> None:
    for study in (tabular_study(), tabular_study(model={"name": "support.tiny_model:factory"})):
        torch.manual_seed(1)
        first, _ = run(study, blobs(30))
        torch.manual_seed(2)
        again, _ = run(study, blobs(30))
        other, _ = run(study, blobs(30), seed=1)
        assert flat(first).tobytes() == flat(again).tobytes()
        assert flat(first).tobytes() != flat(other).tobytes()


def test_training_leaves_torch_s_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run(tabular_study(), blobs(10))
    assert torch.equal(torch.rand(3), expected)


def test_an_epoch_visits_every_record_once_and_keeps_the_last_batch() -> None:
    seen = rows_of(10, local_epochs=2)
    assert [len(rows) for rows in seen] == [4, 4, 2, 4, 4, 2]
    for epoch in (seen[:3], seen[3:]):
        assert sorted(chain.from_iterable(epoch)) == list(range(10))
    assert seen[:3] != seen[3:]


def test_local_steps_go_over_epochs_and_stop_within_one() -> None:
    seen = rows_of(10, local_steps=5)
    assert [len(rows) for rows in seen] == [4, 4, 2, 4, 4]
    assert sorted(chain.from_iterable(seen[:3])) == list(range(10))
    assert [len(rows) for rows in rows_of(10, local_steps=2)] == [4, 4]
    assert [len(rows) for rows in rows_of(3, local_steps=2)] == [3, 3]


def test_the_last_partial_batch_is_learnt_from() -> None:
    study = tabular_study(training={"local_epochs": 1, "batch_size": 4})
    five, four = blobs(5), blobs(4)
    model, summary = run(study, five)
    shorter, _ = run(study, four)
    assert summary.steps == 2
    assert flat(model).tobytes() != flat(shorter).tobytes()


def test_one_record_trains() -> None:
    study = tabular_study()
    model, summary = run(study, blobs(1))
    assert summary.steps == 2
    assert flat(model).tobytes() != flat(build(study)).tobytes()


def test_a_class_that_is_missing_is_no_error() -> None:
    data = blobs(12)
    kept = data.y != 1
    loss = PrototypeLoss(GlobalPrototypes.absent(3, 8), 1.0)
    _, summary = run(tabular_study(), Records(data.x[kept], data.y[kept]), loss=loss)
    assert summary.alignment == 0.0


def test_summary_of_one_full_batch_is_that_of_the_first_weights() -> None:
    data = blobs(9)
    study = tabular_study(training={"local_epochs": 1, "batch_size": 9})
    target = GlobalPrototypes(np.ones((3, 8)), np.zeros(3, dtype=np.int64))
    with torch.no_grad():
        logits, z = build(study)(torch.tensor(data.x))
    _, summary = run(study, data, loss=PrototypeLoss(target, 3.0))
    expected = float(nn.functional.cross_entropy(logits, torch.tensor(data.y)))
    assert summary.cross_entropy == pytest.approx(expected, rel=1e-6)
    assert summary.alignment == pytest.approx(float((z - 1).square().mean()), rel=1e-6)
    assert summary.mean_embedding_norm == pytest.approx(float(z.norm(dim=1).mean()), rel=1e-6)


def test_a_step_is_sgd_with_momentum_and_weight_decay() -> None:
    data = blobs(6)
    study = tabular_study(
        training={
            "local_epochs": 2,
            "batch_size": 6,
            "learning_rate": 0.05,
            "momentum": 0.5,
            "weight_decay": 0.01,
        }
    )
    by_hand = build(study)
    speed = [torch.zeros_like(parameter) for parameter in by_hand.parameters()]
    for _ in range(2):
        loss = nn.functional.cross_entropy(by_hand(torch.tensor(data.x))[0], torch.tensor(data.y))
        gradients = torch.autograd.grad(loss, list(by_hand.parameters()))
        with torch.no_grad():
            for v, g, p in zip(speed, gradients, by_hand.parameters(), strict=True):
                v.mul_(0.5).add_(g + 0.01 * p)
                p.sub_(0.05 * v)
    model, _ = run(study, data)
    np.testing.assert_allclose(flat(model), flat(by_hand), rtol=1e-4, atol=1e-6)


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    study = tabular_study(training={"local_epochs": 2, "batch_size": 4})
    train(
        build(study),
        blobs(6),
        plan=Plan(study.training, cross_entropy_loss(3, 8)),
        generator=torch_generator(),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_no_records_is_said() -> None:
    with pytest.raises(Misconfigured, match="no records"):
        run(tabular_study(), blobs(0))


def test_divergence_is_said() -> None:
    study = tabular_study(training={"local_epochs": 50, "learning_rate": 1e30})
    with pytest.raises(Misconfigured, match="diverged"):
        run(study, blobs(20))


def test_a_loss_beyond_all_bounds_has_diverged_though_it_is_finite() -> None:
    study = tabular_study(training={"local_epochs": 2, "learning_rate": 1e6})
    with pytest.raises(Diverged, match=r"diverged, the cross entropy is over 1e\+06") as caught:
        run(study, blobs(20))
    again = copy.copy(caught.value)  # as it comes from a worker: by __reduce__
    assert (again.term, again.how) == ("the cross entropy", "over 1e+06")


@pytest.mark.parametrize(("bound", "over"), [(2.0, False), (0.2, True)])
def test_the_bound_is_on_the_mean_and_not_on_the_sum(
    bound: float, over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60 records, twice, with a cross entropy of about 1."""
    monkeypatch.setattr("secureproto.learning.training.LARGEST", bound)
    study = tabular_study(training={"local_epochs": 2, "learning_rate": 1e-4})
    with pytest.raises(Diverged) if over else nullcontext():
        run(study, blobs(60))


def test_a_batch_of_one_under_batch_norm_is_said() -> None:
    study = tabular_study(training={"local_epochs": 1, "batch_size": 4})
    spec = ModelSpec((4,), 3, 8)
    model = Model(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)), nn.Linear(8, 3), spec=spec)
    with pytest.raises(Misconfigured, match="batch of one"):
        train(model, blobs(5), plan=Plan(study.training, cross_entropy_loss(3, 8)), generator=torch_generator())
