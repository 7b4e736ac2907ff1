"""Whether a model can be trained privately: layer by layer, and by trying it on a few made-up records.

Invariants of a model that passes: an output depends on its own record only, and on no chance; the embedding has norm
1 at most; a pass writes to no tensor; clipped sums are those that one record after the other gives (the slow oracle),
whatever the layers are called. No record of the site is used. The trial costs as much as a few small steps.
Source: PRIVACY.md, "Before the clip" and "DP-SGD".
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.errors import Misconfigured
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model, UnitNorm
from secureproto.learning.private.clipping import Clipper
from secureproto.learning.private.ghost import Ghost
from secureproto.learning.private.hooks import Hooks, strip
from secureproto.learning.seeding import reproducible
from secureproto.study.privacy import PrivateTraining

Gradients = Literal["ghost", "hooks"]

SUPPORTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.GroupNorm, nn.LayerNorm)
TRIED = 3  # made-up records
TOLERANCE = 1e-3  # relative, of float32 sums in two orders; what is wrong is wrong by far more


def clipper(model: Model, loss: PrototypeLoss, training: PrivateTraining) -> Clipper:
    """The plan's way to find clipped sums."""
    kind = Ghost if training.gradients == "ghost" else Hooks
    return kind(model, loss, training.max_grad_norm)


def check_private(model: Model, record_shape: Sequence[int], *, gradients: Gradients = "ghost") -> None:
    """Refuse a model for which the guarantee would not hold; it is as before afterwards.

    Raises:
        Misconfigured: naming the layer, and what to use in its place.
    """
    if not isinstance(model.normalise, UnitNorm):
        raise _unfit("its embedding is not normalised", "set model.normalise_embedding = true in the study")
    _check_layers(model)
    was_training = model.training
    try:
        with reproducible(0):
            model.train()
            _check_passes(model, _made_up(record_shape), gradients)
            _check_sums(model, record_shape, gradients)
    finally:
        model.train(was_training)
        strip(model)


def _check_layers(model: Model) -> None:
    owners: Counter[int] = Counter()
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, _BatchNorm):
            raise _unfit(f"layer {name} ({kind}) mixes the records of a batch", "use GroupNorm")
        if isinstance(module, _DropoutNd) and module.p > 0:
            raise _unfit(f"layer {name} ({kind}) draws one mask for a batch", "leave it out: the noise regularises")
        if getattr(module, "inplace", False):
            raise _unfit(f"layer {name} ({kind}) overwrites its input", "give it inplace = False")
        own = [parameter for parameter in module.parameters(recurse=False) if parameter.requires_grad]
        if own and type(module) not in SUPPORTED:
            raise _unfit(
                f"layer {name} ({kind}) has no gradient per record",
                "use Linear, Conv1d to Conv3d, GroupNorm and LayerNorm; only these, not subclasses, may hold weights",
            )
        if getattr(module, "padding_mode", "zeros") != "zeros":
            raise _unfit(f"layer {name} ({kind}) pads with other than zeros", "give it padding_mode = 'zeros'")
        owners.update(id(parameter) for parameter in own)
    if not owners:
        raise _unfit("it has no weight to train", "choose another model.name")
    if max(owners.values()) > 1:
        raise _unfit("two layers share a weight", "give each layer its own")
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise _unfit(
                f"tensor {name} is not finite", "start from an earlier version; the learning rate is too high"
            )


@dataclass(frozen=True, eq=False)
class _Batch:
    x: Tensor
    y: Tensor


def _made_up(record_shape: Sequence[int], classes: int = 1) -> _Batch:
    numbers = np.random.default_rng(0)
    x = torch.from_numpy(numbers.normal(size=(TRIED, *record_shape)).astype(np.float32))
    return _Batch(x, torch.arange(TRIED) % classes)


@torch.no_grad()
def _check_passes(model: Model, batch: _Batch, gradients: Gradients) -> None:
    """Each layer runs as often as it may; outputs depend on their own record alone; nothing is written."""
    buffers = {name: tensor.clone() for name, tensor in model.named_buffers()}
    with _counting(model) as runs:
        expected = _outputs(model, batch.x)
    trained = [(n, m) for n, m in model.named_modules() if any(p.requires_grad for p in m.parameters(recurse=False))]
    for name, module in trained:
        if runs[module] == 0:
            raise _unfit(f"layer {name} takes no part in a pass", "leave it out, or freeze it")
        if runs[module] > 1 and gradients == "ghost":
            raise _unfit(f"layer {name} runs more than once in a pass", "set gradients = 'hooks' in privacy.training")
    again, other = _outputs(model, batch.x), batch.x.clone()
    other[0] = 100 * other[0] + 1
    mixed = _outputs(model, other)
    for name, tensor in model.named_buffers():
        if not _same(tensor, buffers[name]):
            tensor.copy_(buffers[name])
            raise _unfit(f"a pass over records writes to its tensor {name}", "use layers without running statistics")
    if not _same(again, expected):
        raise _unfit("its outputs are left to chance", "leave dropout and other noise out")
    if not _close(mixed[1:], expected[1:]):
        raise _unfit("the outputs of a record depend on the others of its batch", "use layers that take each alone")


def _check_sums(model: Model, record_shape: Sequence[int], gradients: Gradients) -> None:
    """Against one record after the other by torch alone, with a bound that clips some and not all."""
    batch = _made_up(record_shape, model.classes)
    targets = GlobalPrototypes(
        np.random.default_rng(1).normal(size=(model.classes, model.embedding_width)),
        np.zeros(model.classes, dtype=np.int64),
    )
    loss = PrototypeLoss(targets, 1.0)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    single = [_one(model, loss, batch.x[i : i + 1], batch.y[i : i + 1]) for i in range(TRIED)]
    norms = torch.stack([gradient.norm() for gradient in single])
    bound = max(float(norms.median()), 1e-6)
    expected = torch.stack([g * min(1.0, bound / max(float(g.norm()), 1e-12)) for g in single]).sum(dim=0)
    finder: Clipper = (Ghost if gradients == "ghost" else Hooks)(model, loss, bound)
    try:
        sums = finder.clipped_sum(batch.x, batch.y).sums
    except (RuntimeError, ValueError, AttributeError) as error:
        raise _unfit(
            f"gradients per record cannot be found ({type(error).__name__})", "use plain layers, and none in place"
        ) from error
    finally:
        finder.close()
    found = torch.cat([sums.get(item, torch.zeros_like(item)).reshape(-1).double() for item in parameters])
    if float((found - expected).norm()) > TOLERANCE * bound:
        raise _unfit(
            "a weight is used outside its layer, or records do not come first in a layer's input",
            "call each layer once, with the records along the first axis",
        )


def _one(model: Model, loss: PrototypeLoss, x: Tensor, y: Tensor) -> Tensor:
    """One record's gradient over all trained tensors, float64."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with torch.enable_grad():
        gradients = torch.autograd.grad(loss(model(x), y), parameters, materialize_grads=True)
    return torch.cat([gradient.reshape(-1).double() for gradient in gradients])


def _outputs(model: Model, x: Tensor) -> Tensor:
    try:
        logits, embeddings = model(x)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise _unfit(
            f"records of shape {tuple(x.shape[1:])} do not go through it", "check the data section of the study"
        ) from error
    return torch.cat([logits, embeddings], dim=1)


@contextmanager
def _counting(model: Model) -> Iterator[Counter[nn.Module]]:
    """How often each layer runs inside; a GroupNorm that leaves nothing of its input is refused."""
    runs: Counter[nn.Module] = Counter()

    def count(module: nn.Module, inputs: tuple[Tensor, ...], _: object) -> None:
        runs[module] += 1
        if isinstance(module, nn.GroupNorm) and inputs[0][0].numel() == module.num_groups:
            raise _unfit("a GroupNorm has one number a group, so it erases its input", "use fewer groups, or none")

    hooks = [module.register_forward_hook(count) for module in model.modules()]
    try:
        yield runs
    finally:
        for hook in hooks:
            hook.remove()


def _same(first: Tensor, second: Tensor) -> bool:
    return first.detach().numpy().tobytes() == second.detach().numpy().tobytes()


def _close(first: Tensor, second: Tensor) -> bool:
    return bool(torch.allclose(first, second, rtol=1e-4, atol=1e-5))


def _unfit(what: str, hint: str) -> Misconfigured:
    return Misconfigured(f"model cannot be trained privately: {what}", hint=hint)
