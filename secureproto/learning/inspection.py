"""Checks on a model when it is built, so that a bad factory is found then and not in round 7.

Invariant: a model that passes gives (n, C) logits and (n, d) embeddings, and its two parts consist of tensors that
can travel: named as the wire allows, of its dtypes, none of them in both parts.
"""

import re
from itertools import chain
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from secureproto.errors import Misconfigured
from secureproto.learning.architectures import ModelSpec

if TYPE_CHECKING:
    from secureproto.learning.model import Model

DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
_NAME = re.compile(r"[A-Za-z0-9_.]{1,200}")
_HINT = "correct the factory, or choose another model.name in the study"


def batch_norm_layers(model: nn.Module) -> tuple[str, ...]:
    """Names of the BatchNorm layers: their statistics mix the records of a batch, and sites of different kinds."""
    return tuple(name for name, module in model.named_modules() if isinstance(module, _BatchNorm))


def check_tensors(model: "Model") -> None:
    """Every tensor can travel, and the parts share none.

    Raises:
        Misconfigured: naming the first that cannot.
    """
    for part, module in (("extractor", model.extractor), ("head", model.head)):
        for name, tensor in module.state_dict().items():
            if not isinstance(tensor, torch.Tensor) or tensor.dtype not in DTYPES:
                raise _unfit(f"{part} tensor {name} is not float32, float64 or int64")
            if module is model.head and tensor.dtype == torch.int64:
                raise _unfit(f"head tensor {name} is an integer, and heads are mixed")
            if not _NAME.fullmatch(name):
                raise _unfit(f"a name of the {part} has other characters than A-Z a-z 0-9 _ . or is over 200 long")
    shared = {id(tensor) for tensor in _tensors(model.extractor)} & {id(tensor) for tensor in _tensors(model.head)}
    if shared:
        raise _unfit("extractor and head share a tensor, so they cannot be mixed apart")


def check_outputs(model: "Model", spec: ModelSpec) -> None:
    """Two records of zeros go through, and the outputs have the study's widths.

    Raises:
        Misconfigured: they do not.
    """
    model.eval()
    try:
        with torch.no_grad():
            logits, embeddings = model(torch.zeros(2, *spec.input_shape))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise _unfit(f"records of shape {spec.input_shape} do not go through it") from error
    if tuple(embeddings.shape) != (2, spec.embedding_width):
        raise _unfit(f"embeddings of shape {tuple(embeddings.shape[1:])} in place of ({spec.embedding_width},)")
    if tuple(logits.shape) != (2, spec.classes):
        raise _unfit(f"logits of shape {tuple(logits.shape[1:])} in place of ({spec.classes},)")


def _tensors(module: nn.Module) -> chain[torch.Tensor]:
    return chain(module.parameters(), module.buffers())


def _unfit(what: str) -> Misconfigured:
    return Misconfigured(f"model does not fit the study: {what}", hint=_HINT)
