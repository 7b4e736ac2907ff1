"""Models that cannot be trained privately are refused in one line that says what to use; ours pass."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from secureproto.errors import Misconfigured
from secureproto.learning.arrays import to_arrays
from secureproto.learning.model import build
from secureproto.learning.private.checks import Gradients, check_private
from secureproto.study.schema import StudyFile
from support.learning import image_study, tabular_study
from support.private_training import SHAPES, WIDTH, made, wrap

WAYS: list[Gradients] = ["ghost", "hooks"]


class Mixing(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return z - z.mean(dim=0)


class Counting(nn.Module):
    """Keeps a statistic of what passes."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, z: Tensor) -> Tensor:
        self.seen += z.detach().sum(dim=0)
        return z


class Chance(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return functional.dropout(z, 0.5, training=self.training)


class Overwriting(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        z += 1
        return z


class Twice(nn.Module):
    """One layer, two times."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, z: Tensor) -> Tensor:
        out: Tensor = self.layer(self.layer(z))
        return out


class Sideways(nn.Module):
    """Uses a weight also outside its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, z: Tensor) -> Tensor:
        out: Tensor = self.layer(z) + functional.linear(z, self.layer.weight)
        return out


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.idle = nn.Linear(5, WIDTH), nn.Linear(5, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out


class OwnWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class SubLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def tied() -> nn.Module:
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    second.weight = first.weight
    return nn.Sequential(first, second, nn.Linear(5, WIDTH))


def before(layer: nn.Module) -> nn.Module:
    return nn.Sequential(layer, nn.Linear(5, WIDTH))


def after(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(5, WIDTH), *layers)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_a_model_that_passes_is_as_before(name: str, way: Gradients) -> None:
    model = made(name).train()
    arrays = {key: array.tobytes() for key, array in to_arrays(model).items()}
    generator = torch.get_rng_state()
    attributes = {key: set(vars(parameter)) for key, parameter in model.named_parameters()}
    check_private(model, SHAPES[name], gradients=way)
    assert model.training
    assert {key: array.tobytes() for key, array in to_arrays(model).items()} == arrays
    assert torch.equal(torch.get_rng_state(), generator)
    assert {key: set(vars(parameter)) for key, parameter in model.named_parameters()} == attributes
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())


@pytest.mark.parametrize("way", WAYS)
def test_the_built_in_models_pass(way: Gradients) -> None:
    check_private(build(tabular_study(model=NORMAL)), (4,), gradients=way)
    check_private(build(image_study_normal("cnn", (1, 28, 28))), (1, 28, 28), gradients=way)


NORMAL = {"normalise_embedding": True}


def image_study_normal(name: str, shape: tuple[int, int, int]) -> StudyFile:
    study = image_study(name, shape=shape)
    return study.model_copy(update={"model": study.model.model_copy(update=NORMAL)})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("extractor", "what", "use"),
    [
        (after(nn.BatchNorm1d(WIDTH)), r"layer extractor.1 \(BatchNorm1d\) mixes", "GroupNorm"),
        (after(nn.BatchNorm1d(WIDTH, track_running_stats=False)), "mixes the records", "GroupNorm"),
        (after(nn.GroupNorm(WIDTH, WIDTH)), "erases its input", "fewer groups"),
        (after(nn.Dropout(0.1)), r"\(Dropout\) draws", "leave it out"),
        (after(nn.ReLU(inplace=True)), "overwrites", "inplace = False"),
        (after(nn.PReLU()), r"\(PReLU\) has no gradient per record", "Linear, Conv1d"),
        (before(OwnWeight()), r"\(OwnWeight\) has no gradient per record", "Linear, Conv1d"),
        (before(SubLinear(5, 5)), r"\(SubLinear\) has no gradient per record", "Linear, Conv1d"),
        (after(nn.Bilinear(WIDTH, WIDTH, WIDTH)), r"\(Bilinear\) has no gradient", "Linear, Conv1d"),
        (tied(), "share a weight", "its own"),
        (after(Mixing()), "depend on the others of its batch", "alone"),
        (before(Counting()), "writes to its tensor extractor.0.seen", "running statistics"),
        (after(Chance()), "left to chance", "leave dropout"),
        (after(Sideways()), "used outside its layer", "once"),
        (Unused(), "layer extractor.idle takes no part", "freeze"),
        (nn.Linear(7, WIDTH), "do not go through", "data section"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_is_refused(extractor: nn.Module, what: str, use: str, way: Gradients) -> None:
    with pytest.raises(Misconfigured, match=what) as caught:
        check_private(wrap(extractor, (5,)), (5,), gradients=way)
    assert use in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_an_output_that_is_overwritten_is_refused_under_ghost() -> None:
    with pytest.raises(Misconfigured, match="RuntimeError"):
        check_private(wrap(after(Overwriting()), (5,)), (5,))


def test_a_layer_that_runs_twice_needs_hooks() -> None:
    with pytest.raises(Misconfigured, match="more than once") as caught:
        check_private(wrap(after(Twice()), (5,)), (5,))
    assert "hooks" in caught.value.hint
    check_private(wrap(after(Twice()), (5,)), (5,), gradients="hooks")


def test_recurrent_and_attention_layers_are_named() -> None:
    for layer in (nn.LSTM(5, WIDTH), nn.MultiheadAttention(WIDTH, 2)):
        with pytest.raises(Misconfigured, match=rf"\({type(layer).__name__}\) has no gradient per record"):
            check_private(wrap(nn.Sequential(layer), (5,)), (5,))


def test_circular_padding_is_refused() -> None:
    extractor = nn.Sequential(
        nn.Conv1d(1, 2, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(10, WIDTH)
    )
    with pytest.raises(Misconfigured, match="pads with other"):
        check_private(wrap(extractor, (1, 5)), (1, 5))


def test_rows_that_become_records_are_refused() -> None:
    class Folding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.layer(x.reshape(-1, 1))
            return out.reshape(len(x), -1)

    with pytest.raises(Misconfigured, match="cannot be trained privately"):
        check_private(wrap(nn.Sequential(Folding(), nn.Linear(10, WIDTH)), (5,)), (5,))


def test_an_embedding_without_bound_is_refused() -> None:
    model = build(tabular_study())
    with pytest.raises(Misconfigured, match="not normalised") as caught:
        check_private(model, (4,))
    assert "model.normalise_embedding = true" in caught.value.hint


def test_weights_that_are_not_finite_are_refused() -> None:
    model = made("mlp")
    with torch.no_grad():
        model.head.weight[0, 0] = float("nan")  # type: ignore[operator]
    with pytest.raises(Misconfigured, match=r"head\.weight is not finite"):
        check_private(model, SHAPES["mlp"])


def test_a_model_without_weights_to_train_is_refused() -> None:
    model = made("mlp")
    model.requires_grad_(False)
    with pytest.raises(Misconfigured, match="no weight to train"):
        check_private(model, SHAPES["mlp"])
