"""Private training: it learns, does the steps of the plan and no others, and no record can stop or bend it."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from secureproto.errors import Misconfigured
from secureproto.learning.arrays import to_arrays
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import evaluate
from secureproto.learning.losses import cross_entropy_loss
from secureproto.learning.model import build
from secureproto.learning.private import training as private
from secureproto.learning.private.noise import NoNoise
from secureproto.learning.private.training import PrivateSummary, Sources, train_privately
from secureproto.learning.training import Diverged
from secureproto.simulation.chance import simulated_chance
from support.learning import blobs, tabular_study
from support.private_training import (
    SHAPES,
    WIDTH,
    Everyone,
    Zeros,
    loss_of,
    made,
    plan,
    quiet,
    some_records,
    trained_vector,
    with_record,
    wrap,
)

WAYS = ["ghost", "hooks"]


class Given:
    """Draws what it is told, step by step."""

    def __init__(self, *draws: list[int]) -> None:
        self.draws = list(draws)

    def draw(self, records: int, rate: float) -> NDArray[np.int64]:
        """The next."""
        return np.array(self.draws.pop(0), dtype=np.int64)


def run(
    data: Records, sources: Sources | None = None, name: str = "mlp", **values: Any
) -> tuple[Any, PrivateSummary]:
    model = made(name)
    summary = train_privately(model, data, training=plan(**values), loss=loss_of("aligned"), sources=sources)
    return model, summary


@pytest.mark.parametrize("way", WAYS)
def test_it_learns(way: str) -> None:
    data = blobs(300)
    model = build(tabular_study(model={"normalise_embedding": True}))
    values = {"sample_rate": 0.2, "steps": 60, "expected_batch": 60.0, "learning_rate": 2.0, "gradients": way}
    chance = simulated_chance(
        tabular_study(), site="a", round_number=0
    )  # from a seed: what is learned can be asserted
    assert chance.sampler is not None
    assert chance.noise is not None
    sources = Sources(chance.sampler, chance.noise)
    summary = train_privately(model, data, training=plan(**values), loss=cross_entropy_loss(3, 8), sources=sources)
    assert evaluate(model, data).accuracy > 0.95
    assert not model.training
    assert 3000 < summary.local.visits < 4200
    assert summary.local.isolated == 0
    assert 0 < summary.local.summary.cross_entropy < 1.2
    assert 0.9 < summary.local.summary.mean_embedding_norm < 1 + 1e-5  # 0 where noise has put out every unit


@pytest.mark.parametrize("records", [0, 1, 5, 50])
def test_what_is_executed_follows_from_the_plan_alone(records: int) -> None:
    """The same steps and the same draws of noise for every site, also one without a record."""
    model, summary = run(some_records(records, SHAPES["mlp"]), steps=7, sample_rate=0.05, noise_multiplier=0.5)
    assert (summary.steps, summary.noise_multiplier) == (7, 0.5)
    assert summary.noise_draws == 7 * trained_vector(model).size
    assert summary.local.summary.steps == 7


def test_without_noise_it_says_so() -> None:
    _, summary = run(some_records(5, SHAPES["mlp"]), Sources(Everyone(), NoNoise()))
    assert summary.noise_multiplier == 0


def test_two_trainings_are_never_alike_whatever_the_seeds() -> None:
    data, vectors = some_records(5, SHAPES["mlp"]), []
    for _ in range(2):
        torch.manual_seed(0)
        vectors.append(trained_vector(run(data)[0]))
    assert not np.intersect1d(vectors[0], vectors[1]).size


def test_torch_s_generator_and_threads_are_left_alone() -> None:
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    run(some_records(5, SHAPES["mlp"]))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_nothing_is_left_on_the_model(name: str, way: str) -> None:
    fresh = made(name)
    on_modules = {key: set(vars(module)) for key, module in fresh.named_modules()}
    model, _ = run(some_records(6, SHAPES[name]), name=name, gradients=way, steps=2)
    for parameter in model.parameters():
        assert not vars(parameter)
        assert parameter.grad is None
    assert {key: set(vars(module)) for key, module in model.named_modules()} == on_modules
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())
    assert to_arrays(model).keys() == to_arrays(fresh).keys()


@pytest.mark.parametrize("way", WAYS)
def test_chunks_are_one_step(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = some_records(23, SHAPES["cnn"])
    whole, _ = run(data, quiet(), "cnn", gradients=way)
    sizes: list[int] = []
    real = private._isolating

    def seen(finder: Any, records: Records, rows: NDArray[np.int64], *rest: Any) -> Any:
        sizes.append(len(rows))
        return real(finder, records, rows, *rest)

    monkeypatch.setattr(private, "_isolating", seen)
    monkeypatch.setattr(private, "CHUNK", 5)
    parts, summary = run(data, quiet(), "cnn", gradients=way)
    assert sizes == [5, 5, 5, 5, 3]
    assert summary.noise_draws == trained_vector(whole).size
    np.testing.assert_allclose(trained_vector(parts), trained_vector(whole), atol=1e-6)


def test_the_chunk_follows_from_the_model_and_not_from_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [nn.Parameter(torch.zeros(1000))]
    monkeypatch.setattr(private, "CHUNK_BYTES", 4 * 1000 * 7)
    for count in (3, 15, 700):
        sizes = [len(part) for part in private._chunks(np.arange(count), weights)]
        assert max(sizes) == min(7, count)
        assert sum(sizes) == count


@pytest.mark.parametrize("way", WAYS)
def test_bad_records_are_counted_and_the_others_are_trained_on(way: str) -> None:
    data = some_records(6, SHAPES["mlp"])
    expected, _ = run(data, quiet(), gradients=way, steps=3)
    bad = data
    for at, (value, label) in enumerate([(np.nan, 0), (np.inf, 1), (1e30, 2), (0.0, 3), (0.0, -1)]):
        bad = with_record(bad, np.full(5, value, dtype=np.float32), label, at)
    model, summary = run(bad, quiet(), gradients=way, steps=3)
    assert summary.local.isolated == 5
    assert summary.local.visits == 3 * 11
    np.testing.assert_allclose(trained_vector(model), trained_vector(expected), atol=1e-6)
    assert np.isfinite(summary.local.summary.cross_entropy)


class Moody(nn.Module):
    """Fails on one kind of record, in one of several ways; the others it takes."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        hit = x[:, :1] > 99
        if self.how == "raises" and bool(hit.any()):
            raise RuntimeError("a record I do not like")
        if self.how == "nan":
            return torch.where(hit, torch.full_like(x, float("nan")), x)
        if self.how == "nan gradient":
            return x + torch.where(hit, 1e30 * 1e30 * x * 0, 0 * x)
        return x


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["raises", "nan", "nan gradient"])
def test_a_record_that_the_model_fails_on_changes_nothing(
    how: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "check_private", lambda *a, **k: None)  # its trial has such records
    vectors = []
    for data in (some_records(6, (5,)), with_record(some_records(6, (5,)), np.full(5, 100, dtype=np.float32), 0, 2)):
        torch.manual_seed(0)
        model = wrap(nn.Sequential(nn.Linear(5, 5), Moody("fine"), nn.Linear(5, WIDTH)), (5,))
        model.extractor = nn.Sequential(Moody(how), *model.extractor.children())
        training = plan(gradients=way, steps=2)
        summary = train_privately(model, data, training=training, loss=loss_of("aligned"), sources=quiet())
        assert summary.local.isolated == len(data) - 6
        vectors.append(trained_vector(model))
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


class Kink(nn.Module):
    """Finite outputs, and for one kind of record a derivative that is no number."""

    def forward(self, x: Tensor) -> Tensor:
        hit = x.abs().amax(dim=1, keepdim=True) > 1e4
        return x + torch.sqrt(torch.where(hit, x * 0, 1 + x * 0))


@pytest.mark.parametrize("way", WAYS)
def test_a_record_without_a_finite_gradient_adds_nothing(way: str) -> None:
    vectors = []
    for data in (some_records(6, (5,)), with_record(some_records(6, (5,)), np.full(5, 9e5, dtype=np.float32), 0, 2)):
        torch.manual_seed(0)
        model = wrap(nn.Sequential(nn.Linear(5, 5), Kink(), nn.Linear(5, WIDTH)), (5,))
        training = plan(gradients=way, steps=2)
        summary = train_privately(model, data, training=training, loss=loss_of("aligned"), sources=quiet())
        assert summary.local.isolated == len(data) - 6
        vectors.append(trained_vector(model))
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


def test_only_bad_records_is_a_step_of_noise() -> None:
    data = Records(np.full((4, 5), np.nan, dtype=np.float32), np.zeros(4, dtype=np.int64))
    model, summary = run(data, quiet())
    assert np.array_equal(trained_vector(model), trained_vector(made("mlp")))
    assert summary.local.isolated == 4
    assert summary.local.summary.cross_entropy == 0


def test_a_frozen_tensor_is_not_trained_and_keeps_its_bytes() -> None:
    for way in WAYS:
        model = made("cnn")
        model.extractor[0].requires_grad_(False)  # type: ignore[index]
        model.head.bias.requires_grad_(False)
        before = to_arrays(model)
        training = plan(gradients=way, steps=3, weight_decay=0.1)
        summary = train_privately(model, some_records(9, SHAPES["cnn"]), training=training, loss=loss_of("plain"))
        after = to_arrays(model)
        kept = {name for name in before if before[name].tobytes() == after[name].tobytes()}
        assert kept == {"extractor.0.weight", "extractor.0.bias", "head.bias"}
        assert summary.noise_draws == 3 * trained_vector(model).size


class Recalls(nn.Module):
    """A buffer that one kind of record writes, which gives no gradient itself, and that all later ones are shown."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        shown = x + self.seen
        hit = x[:, :1] > 4000  # the trial's records are far below
        if bool(hit.any()):
            self.seen += 1
        return torch.where(hit, torch.full_like(x, float("nan")), shown)


@pytest.mark.parametrize("way", WAYS)
def test_a_buffer_that_a_record_writes_is_put_back_before_the_next_chunk(way: str) -> None:
    data, vectors = some_records(3, (5,)), []
    data.x[0] = 5000
    for draws in ([[0], [1, 2]], [[], [1, 2]]):
        torch.manual_seed(0)
        model = wrap(nn.Sequential(Recalls(), nn.Linear(5, WIDTH)), (5,))
        sources = Sources(Given(*draws), Zeros())
        training = plan(gradients=way, steps=2)
        train_privately(model, data, training=training, loss=loss_of("aligned"), sources=sources)
        assert not to_arrays(model)["extractor.0.seen"].any()
        vectors.append(trained_vector(model))
    assert np.array_equal(vectors[0], vectors[1])


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    train_privately(
        made("mlp"),
        some_records(3, (5,)),
        training=plan(steps=3),
        loss=loss_of("plain"),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_model_that_cannot_be_is_refused_before_anything_changes() -> None:
    model = build(tabular_study())
    before = trained_vector(model)
    with pytest.raises(Misconfigured, match="not normalised"):
        train_privately(model, blobs(9), training=plan(), loss=cross_entropy_loss(3, 8))
    assert np.array_equal(trained_vector(model), before)


def test_weights_beyond_all_numbers_have_diverged() -> None:
    with pytest.raises(Diverged):
        run(some_records(3, (5,)), learning_rate=1e6, weight_decay=1e6, steps=8)
