"""Building models: seeds, shapes, what is refused, and that BatchNorm and torch's global state are minded."""

import logging
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.models import resnet18 as torchvision_resnet18

from secureproto.errors import Misconfigured, PolicyDenied
from secureproto.learning.architectures import Factory, ModelSpec, cnn, resnet18
from secureproto.learning.model import build, load_arrays, model_schema, to_arrays
from support.learning import image_study, tabular_study

TINY = "support.tiny_model:factory"


def arrays_of(model: nn.Module) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in to_arrays(model).items()}


def register(monkeypatch: pytest.MonkeyPatch, factory: Any) -> str:
    """Install a factory as a module of its own and give its name."""
    module = ModuleType("their_models")
    module.factory = factory  # type: ignore[attr-defined]  # a module made on the spot
    monkeypatch.setitem(sys.modules, "their_models", module)
    return "their_models:factory"


def build_theirs(monkeypatch: pytest.MonkeyPatch, factory: Any) -> None:
    name = register(monkeypatch, factory)
    build(tabular_study(model={"name": name}), [name])


def test_the_study_s_seed_fixes_the_weights() -> None:
    study = tabular_study()
    torch.manual_seed(1)
    first = arrays_of(build(study))
    torch.manual_seed(2)
    assert arrays_of(build(study)) == first
    assert arrays_of(build(tabular_study(model={"seed": 8}))) != first


def test_building_leaves_torch_s_generator_and_threads_alone() -> None:
    torch.manual_seed(5)
    expected, threads = torch.rand(3), torch.get_num_threads()
    torch.manual_seed(5)
    build(tabular_study())
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_fedpac_s_network_has_its_published_size() -> None:
    model = build(image_study("cnn"))
    assert sum(parameter.numel() for parameter in model.parameters()) == 80_202


def test_cnn_has_a_block_for_each_hidden_width() -> None:
    study = image_study("cnn")
    study = study.model_copy(update={"model": study.model.model_copy(update={"hidden": (3,)})})
    shapes = [array.shape for array in to_arrays(build(study).extractor).values()]
    assert shapes == [(3, 1, 5, 5), (3,), (128, 3 * 12 * 12), (128,)]


def test_resnet18_has_group_norm_only_and_goes_through_arrays() -> None:
    study = image_study("resnet18", shape=(1, 32, 32), width=32)
    model = build(study)
    kinds = [type(module).__name__ for module in model.modules()]
    assert not [kind for kind in kinds if "BatchNorm" in kind]
    assert kinds.count("GroupNorm") == 20
    assert all(m.num_groups < m.num_channels for m in model.modules() if isinstance(m, nn.GroupNorm))
    other = build(study.model_copy(update={"model": study.model.model_copy(update={"seed": 9})}))
    assert arrays_of(other) != arrays_of(model)
    load_arrays(other.extractor, to_arrays(model.extractor))
    load_arrays(other.head, to_arrays(model.head))
    assert arrays_of(other) == arrays_of(model)


def test_resnet18_computes_what_torchvision_s_does() -> None:
    extractor, _ = resnet18(ModelSpec((3, 32, 32), classes=4, embedding_width=16))
    theirs = torchvision_resnet18(norm_layer=lambda width: nn.GroupNorm(32, width))
    theirs.fc = nn.Sequential(nn.Linear(512, 16), nn.ReLU())
    theirs.load_state_dict(extractor.state_dict())
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(extractor(x), theirs(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("factory", [cnn, resnet18])
def test_image_models_refuse_tabular_records(factory: Factory) -> None:
    with pytest.raises(Misconfigured, match="needs images"):
        factory(ModelSpec((4,), classes=3, embedding_width=8))


def test_too_small_an_image_is_refused_and_the_smallest_named() -> None:
    with pytest.raises(Misconfigured, match="too small") as caught:
        build(image_study("cnn", shape=(1, 15, 28)))
    assert "16 pixels" in caught.value.hint
    build(image_study("cnn", shape=(1, 16, 16)))


def test_embeddings_of_our_models_are_not_negative() -> None:
    _, z = build(tabular_study())(torch.randn(50, 4))
    assert z.shape == (50, 8)
    assert z.detach().min().item() >= 0.0


def test_normalised_embeddings_have_unit_length_and_zeros_stay_finite() -> None:
    model = build(tabular_study(model={"normalise_embedding": True}))
    _, z = model(torch.randn(50, 4, generator=torch.Generator().manual_seed(0)))
    norms = torch.linalg.vector_norm(z, dim=1)
    assert bool(((norms - 1).abs() < 1e-5).logical_or(norms == 0).all())
    assert int((norms > 0).sum()) > 40
    nothing = torch.zeros(1, 8, requires_grad=True)
    unit = model.normalise(nothing)
    unit.sum().backward()
    assert torch.equal(unit, torch.zeros(1, 8))
    assert nothing.grad is not None
    assert bool(torch.isfinite(nothing.grad).all())


def test_schema_lists_what_travels_in_order() -> None:
    study = tabular_study(model={"hidden": [5]})
    model = build(study)
    schema = model_schema(model, study)
    assert [(t.name, t.dtype, t.shape) for t in schema.head] == [("weight", "F32", (3, 8)), ("bias", "F32", (3,))]
    assert [t.name for t in schema.extractor] == list(to_arrays(model.extractor))
    assert [t.shape for t in schema.extractor] == [(5, 4), (5,), (8, 5), (8,)]
    assert (schema.classes, schema.embedding_width, schema.reports_loss) == (3, 8, False)
    stopping = tabular_study(stopping={"relative_tolerance": 0.01, "patience": 1})
    assert model_schema(model, stopping).reports_loss


def test_arrays_are_copies_both_ways() -> None:
    head = build(tabular_study()).head
    before = to_arrays(head)
    kept = {name: array.copy() for name, array in before.items()}
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(1.0)
    assert all(np.array_equal(before[name], kept[name]) for name in kept)
    load_arrays(head, before)
    before["bias"][:] = 77.0
    assert np.array_equal(to_arrays(head)["bias"], kept["bias"])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"bias": None}, "is missing"),
        ({"more": np.zeros(1, dtype=np.float32)}, "is not a tensor"),
        ({"bias": np.zeros(4, dtype=np.float32)}, "shape"),
        ({"bias": np.zeros((3, 1), dtype=np.float32)}, "shape"),
        ({"bias": np.zeros(3, dtype=np.float64)}, "dtype"),
    ],
)
def test_arrays_that_do_not_fit_change_nothing(change: dict[str, Any], word: str) -> None:
    head = build(tabular_study()).head
    before = arrays_of(head)
    arrays = {name: array + 1 for name, array in to_arrays(head).items()} | change
    with pytest.raises(Misconfigured, match=f"does not fit the study.*{word}"):
        load_arrays(head, {name: array for name, array in arrays.items() if array is not None})
    assert arrays_of(head) == before


def test_a_factory_needs_the_site_s_leave() -> None:
    study = tabular_study(model={"name": TINY, "options": {"inner": 4}})
    with pytest.raises(PolicyDenied, match="does not allow") as caught:
        build(study, ["support.tiny_model:other"])
    assert caught.value.reasons == ("model_factory",)
    model = build(study, [TINY])
    assert to_arrays(model.extractor)["inner.weight"].shape == (4, 4)


def test_a_factory_not_allowed_is_not_even_imported() -> None:
    with pytest.raises(PolicyDenied):
        build(tabular_study(model={"name": "wave:open"}))
    assert "wave" not in sys.modules


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("no_such_package:factory", "imported"),
        ("support.tiny_model:no_such", "no such name"),
        ("support.tiny_model:__doc__", "not a function"),
    ],
)
def test_a_factory_that_is_not_there(name: str, word: str) -> None:
    with pytest.raises(Misconfigured, match=word):
        build(tabular_study(model={"name": name}), [name])


def test_a_factory_that_fails_is_named_with_the_kind_of_error() -> None:
    study = tabular_study(model={"name": TINY, "options": {"inner": 3}})
    with pytest.raises(Misconfigured, match="factory failed with ValueError"):
        build(study, [TINY])


def test_models_that_do_not_fit_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    tied = nn.Linear(8, 8)
    cases = {
        "embeddings of shape": lambda spec: (nn.Linear(4, 7), nn.Linear(7, 3)),
        "logits of shape": lambda spec: (nn.Linear(4, 8), nn.Linear(8, 4)),
        "do not go through": lambda spec: (nn.Linear(5, 8), nn.Linear(8, 3)),
        "share a tensor": lambda spec: (nn.Sequential(nn.Linear(4, 8), tied), nn.Sequential(tied, nn.Linear(8, 3))),
        "not float32": lambda spec: (nn.Linear(4, 8).half(), nn.Linear(8, 3)),
        "is an integer": lambda spec: (nn.Linear(4, 8), nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 3))),
        "other characters": lambda spec: (nn.Sequential(nn.ModuleDict({"é": nn.Linear(4, 8)})), nn.Linear(8, 3)),
        "failed with": lambda spec: nn.Linear(4, 3),
    }
    for word, factory in cases.items():
        with pytest.raises(Misconfigured, match=word):
            build_theirs(monkeypatch, factory)


def test_batch_norm_is_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def factory(spec: ModelSpec) -> tuple[nn.Module, nn.Module]:
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)), nn.Linear(8, 3)

    with caplog.at_level(logging.WARNING):
        build_theirs(monkeypatch, factory)
    assert "BatchNorm (extractor.1)" in caplog.text
    caplog.clear()
    build(tabular_study())
    assert caplog.text == ""


def test_arrays_of_an_image_model_lie_in_c_order() -> None:
    """Weights are kept channels-last for speed; what travels and is stored must not depend on that."""
    arrays = to_arrays(build(image_study("cnn")))
    assert any(array.ndim == 4 and array.shape[1] > 1 for array in arrays.values())
    assert all(array.flags.c_contiguous for array in arrays.values())
