"""The traps of PRIVACY.md, "DP-SGD", each sprung once: the statistic flags the faulty variant and passes ours.

The statistic of most: what one record does to the sum that noise is added to, over C. At most 1, or the printed ε is
not true.
"""

import copy
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn

from secureproto.learning.arrays import to_arrays
from secureproto.learning.dataset import Records
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.learning.private.noise import SecureNoise
from secureproto.learning.private.optimizer import PrivateOptimizer
from secureproto.learning.private.training import Sources, train_privately
from support.private_training import (
    SHAPES,
    Everyone,
    loss_of,
    made,
    oracle_gradients,
    plan,
    quiet,
    some_records,
    trained_vector,
    with_record,
)

SHAPE = SHAPES["mlp"]
OUTLIER = np.full(5, 500.0, dtype=np.float32)
ALIGNED = loss_of("aligned")
Summed = Callable[[Records], NDArray[np.float64]]
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")  # Opacus, of itself

WAYS = ["ghost", "hooks"]
RATE = 1e5


def sensitivity(summed: Summed) -> float:
    """The most that one of some hostile records does to a sum, over C = 1."""
    data = some_records(12, SHAPE, 4)
    base = summed(data)
    found = [summed(with_record(data, scale * OUTLIER, label, 3)) - base for scale in (1, -1) for label in (0, 1, 2)]
    return float(np.max([np.linalg.norm(row) for row in found]))


def ours(model: Model, way: str = "ghost", **values: float) -> Summed:
    """The clipped sum, of what a step of ours does."""

    def summed(data: Records) -> NDArray[np.float64]:
        work = copy.deepcopy(model)
        training = plan(gradients=way, expected_batch=1.0, learning_rate=RATE, **values)
        train_privately(work, data, training=training, loss=ALIGNED, sources=quiet())
        return (trained_vector(model) - trained_vector(work)) / RATE

    return summed


class Proximal(nn.Module):
    """The two-term loss and, where it does not belong, λ/2 ‖w - w₀‖² of the weights, in the loss of each record."""

    def __init__(self, loss: PrototypeLoss, model: nn.Module) -> None:
        super().__init__()
        self.loss, self.reduction = copy.copy(loss), "mean"
        self.model = [model]

    def forward(self, outputs: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        self.loss.reduction = "none"
        pull = torch.stack([(weight - 1).square().sum() for weight in self.model[0].parameters()]).sum()
        rows: Tensor = self.loss(outputs, y) + pull / 2
        return rows if self.reduction == "none" else rows.mean()


def two_passes(criterion: nn.Module, model: Model) -> Summed:
    """Opacus' ghost clipping as it comes, with two passes back."""

    def summed(data: Records) -> NDArray[np.float64]:
        work = copy.deepcopy(model).train()
        wrapped = GradSampleModuleFastGradientClipping(work, max_grad_norm=1.0, loss_reduction="mean")
        optimizer = DPOptimizerFastGradientClipping(
            torch.optim.SGD(work.parameters(), lr=1.0),
            noise_multiplier=0.0,
            max_grad_norm=1.0,
            expected_batch_size=1,
            loss_reduction="mean",
        )
        if isinstance(criterion, Proximal):
            criterion.model = [work]
        loss = DPLossFastGradientClipping(wrapped, optimizer, criterion, "mean")
        loss(wrapped(torch.from_numpy(data.x)), torch.from_numpy(data.y)).backward()
        parts = [weight.grad.reshape(-1) for weight in work.parameters() if weight.grad is not None]
        return torch.cat(parts).double().numpy()

    return summed


class ProximalLoss(PrototypeLoss):
    """The same term in our own loss."""

    model: Model

    def total(self, cross_entropy: Tensor, alignment: Tensor) -> Tensor:
        """With λ/2 ‖w - 1‖² on every record."""
        pull = torch.stack([(weight - 1).square().sum() for weight in self.model.parameters()]).sum()
        return super().total(cross_entropy, alignment) + pull / 2


def test_1_a_proximal_term_in_the_loss() -> None:
    model = made("mlp")
    assert sensitivity(two_passes(copy.deepcopy(ALIGNED), model)) <= 1 + 1e-5
    assert sensitivity(two_passes(Proximal(ALIGNED, model), model)) > 2

    def summed(data: Records, way: str) -> NDArray[np.float64]:
        work, loss = copy.deepcopy(model), copy.deepcopy(ALIGNED)
        loss.__class__ = ProximalLoss
        loss.model = work
        training = plan(gradients=way, expected_batch=1.0, learning_rate=RATE)
        train_privately(work, data, training=training, loss=loss, sources=quiet())
        return (trained_vector(model) - trained_vector(work)) / RATE

    for way in WAYS:  # even where somebody puts it in again, it does not get past the clip
        assert sensitivity(lambda data, way=way: summed(data, way)) <= 1 + 1e-6  # type: ignore[misc]


def test_1_weight_decay_comes_after_the_noise() -> None:
    """It is a function of the noisy weights: what a record does is what it does without."""
    model = made("mlp")
    for way in WAYS:
        assert sensitivity(ours(model, way, weight_decay=1e-6)) <= 1 + 1e-6


def test_2_a_layer_unfrozen_after_wrapping() -> None:
    frozen = made("mlp")
    frozen.extractor[0].requires_grad_(False)  # type: ignore[index]

    def faulty(data: Records) -> NDArray[np.float64]:
        """Clipped as wrapped; then the first layer's plain gradient is trained as well."""
        work = copy.deepcopy(frozen)
        norms = np.linalg.norm(oracle_gradients(work, ALIGNED, data), axis=1)
        work.extractor[0].requires_grad_(True)  # type: ignore[index]
        rows = oracle_gradients(work, ALIGNED, data) * np.minimum(1, 1 / norms)[:, None]
        total: NDArray[np.float64] = rows.sum(axis=0)
        return total

    assert sensitivity(faulty) > 1.3
    for way in WAYS:
        assert sensitivity(ours(frozen, way)) <= 1 + 1e-6
        model = copy.deepcopy(frozen)

        def thaw(done: int, total: int, model: Model = model) -> None:
            model.requires_grad_(True)

        with pytest.raises(ValueError, match="frozen or unfrozen"):
            train_privately(
                model,
                some_records(5, SHAPE),
                training=plan(gradients=way, steps=2),
                loss=ALIGNED,
                progress=thaw,
            )
        assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())


def test_3_two_optimizers_on_one_batch() -> None:
    """A clip for each part lets a record move both by C."""
    model = made("mlp")
    head = sum(weight.numel() for weight in model.head.parameters())

    def faulty(data: Records) -> NDArray[np.float64]:
        rows = oracle_gradients(model, ALIGNED, data)
        for part in (rows[:, :-head], rows[:, -head:]):
            part *= np.minimum(1, 0.1 / np.linalg.norm(part, axis=1))[:, None]
        total: NDArray[np.float64] = rows.sum(axis=0) / 0.1
        return total

    assert sensitivity(faulty) > 1.3
    for way in WAYS:
        joint = ours(model, way, max_grad_norm=0.1)
        assert sensitivity(lambda data, joint=joint: joint(data) / 0.1) <= 1 + 1e-6  # type: ignore[misc]


def test_4_a_part_that_is_kept_and_not_released() -> None:
    """What a step adds may depend on earlier records through released tensors alone, so all trained ones travel.

    Step 1 has the record or not. Then everything released is set to one value, and the sum of step 2, which has not
    the record, must be the same; with a head that the site kept from its own training it is not.
    """
    data = some_records(12, SHAPE, 4)
    more = with_record(data, OUTLIER, 1, 3)
    released = to_arrays(made("mlp", seed=1))
    for kept, flagged in ((True, True), (False, False)):
        sums = []
        for records in (data, more):
            model = made("mlp")
            train_privately(model, records, training=plan(learning_rate=8.0), loss=ALIGNED, sources=quiet())
            travels = {name for name in to_arrays(model) if not (kept and name.startswith("head."))}
            state = {name: torch.from_numpy(released[name]) for name in travels}
            model.load_state_dict(state, strict=False)
            sums.append(ours(model)(data))
        assert bool(np.linalg.norm(sums[0] - sums[1]) > 0.05) is flagged


def step_scale(records: int, divisor: float) -> NDArray[np.float64]:
    """The update of steps on bad records only, so of noise alone, over lr·σ·C of a divisor of 8."""
    data = Records(np.full((records, 5), np.nan, dtype=np.float32), np.zeros(records, dtype=np.int64))
    model = made("mlp")
    before, found = trained_vector(model), []
    with SecureNoise() as noise:
        for _ in range(30):
            work = copy.deepcopy(model)
            training = plan(expected_batch=divisor, learning_rate=1e3)
            train_privately(work, data, training=training, loss=ALIGNED, sources=Sources(Everyone(), noise))
            found.append((trained_vector(work) - before) * 8 / 1e3)
    return np.concatenate(found)


def test_5_the_divisor_from_the_number_of_records() -> None:
    """The size of the noise in what is released must not tell n."""

    def z(numbers: NDArray[np.float64]) -> float:
        return float((np.mean(numbers**2) - 1) * np.sqrt(len(numbers) / 2))

    for records in (1, 9):
        assert abs(z(step_scale(records, divisor=8.0))) < 6
    assert z(step_scale(9, divisor=9.0)) < -6  # q · n in place of the plan's


def test_6_gradients_of_single_records_on_what_is_written_out() -> None:
    def carried(model: nn.Module) -> set[str]:
        return {name for weight in model.parameters() for name in vars(weight)}

    faulty = made("mlp").train()
    wrapped = GradSampleModule(faulty)
    logits, _ = wrapped(torch.from_numpy(some_records(4, SHAPE).x))
    logits.sum().backward()
    assert "grad_sample" in carried(faulty)
    assert "grad_sample" in carried(copy.deepcopy(faulty)) or vars(next(faulty.parameters()))
    for way in WAYS:
        model = made("mlp")
        train_privately(model, some_records(4, SHAPE), training=plan(gradients=way), loss=ALIGNED)
        assert not carried(model)
        assert all(weight.grad is None for weight in model.parameters())
        assert all(isinstance(array, np.ndarray) for array in to_arrays(model).values())


def test_7_one_record_that_is_no_number() -> None:
    """Opacus as it comes: every weight is NaN. Ours: nothing is."""
    data = with_record(some_records(5, SHAPE), np.full(5, np.nan, dtype=np.float32), 0, 2)
    model = made("mlp")
    assert np.isnan(two_passes(copy.deepcopy(ALIGNED), model)(data)).all()
    for way in WAYS:
        assert np.isfinite(ours(model, way)(data)).all()


class Emptying:
    """No records in every other step."""

    def __init__(self) -> None:
        self.calls = 0

    def draw(self, records: int, rate: float) -> NDArray[np.int64]:
        """None, or all."""
        self.calls += 1
        return np.arange(records if self.calls % 2 else 0)


def skipping(sampler: Emptying, steps: int) -> Iterator[NDArray[np.int64]]:
    """The fault: a step without records is passed over."""
    for _ in range(steps):
        rows = sampler.draw(4, 1.0)
        if len(rows):
            yield rows


def test_8_steps_without_records_are_steps() -> None:
    weights = list(made("mlp").parameters())
    one = sum(weight.numel() for weight in weights)
    with SecureNoise() as noise:
        optimizer = PrivateOptimizer(weights, training=plan(steps=6), noise=noise)
        for _ in skipping(Emptying(), 6):
            optimizer.step()
        assert optimizer.draws < 6 * one
        for way in WAYS:
            for name in ("mlp", "cnn"):
                model = made(name)
                summary = train_privately(
                    model,
                    some_records(4, SHAPES[name]),
                    training=plan(steps=6, gradients=way),
                    loss=ALIGNED,
                    sources=Sources(Emptying(), noise),
                )
                assert summary.noise_draws == 6 * trained_vector(model).size
                assert summary.local.visits == 12


def test_9_the_model_is_left_in_evaluation_mode_and_its_outputs_ask_for_no_more() -> None:
    for way in WAYS:
        model = made("cnn")
        train_privately(model, some_records(4, SHAPES["cnn"]), training=plan(gradients=way), loss=ALIGNED)
        assert not any(module.training for module in model.modules())


def test_layouts_with_channels_last_give_the_right_gradients() -> None:
    """Opacus' rule for convolutions alone gets them wrong, without a word."""
    model, data = made("cnn"), some_records(6, SHAPES["cnn"])
    expected = oracle_gradients(model, ALIGNED, data)
    work = copy.deepcopy(model).train()
    logits, embeddings = GradSampleModule(work, loss_reduction="sum")(torch.from_numpy(data.x))
    losses = copy.copy(ALIGNED)
    losses.reduction = "sum"
    losses((logits, embeddings), torch.from_numpy(data.y)).backward()
    rows = torch.cat([weight.grad_sample.reshape(6, -1) for weight in work.parameters()], dim=1)  # type: ignore[attr-defined]
    assert np.abs(rows.numpy() - expected).max() > 0.01
    for way in WAYS:
        found = ours(model, way, max_grad_norm=1e5)(data)
        np.testing.assert_allclose(found, expected.sum(axis=0), atol=1e-4)
