"""A module's tensors as NumPy arrays and back: what travels of a model.

Invariants: parameters and buffers of the state dict only, detached copies, in its order; loading is all or nothing
and accepts exactly the names, dtypes and shapes of the module.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from secureproto.errors import Misconfigured

Arrays = dict[str, NDArray[Any]]


def to_arrays(module: nn.Module) -> Arrays:
    """Name → a copy of the tensor, in the order of the state dict."""
    # np.array copies: the array must not change when training goes on; in C order, whatever the tensor's layout
    return {name: np.array(tensor.detach().cpu().numpy(), order="C") for name, tensor in module.state_dict().items()}


def load_arrays(module: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Set every tensor of `module` to a copy of its array.

    Raises:
        Misconfigured: names, dtypes or shapes differ; then nothing was changed.
    """
    expected = to_arrays(module)
    for name in sorted(expected.keys() ^ arrays.keys()):
        raise _misfit(name, "is missing" if name in expected else "is not a tensor of the model")
    for name, own in expected.items():
        if arrays[name].dtype != own.dtype:
            raise _misfit(name, f"has dtype {arrays[name].dtype} in place of {own.dtype}")
        if arrays[name].shape != own.shape:
            raise _misfit(name, f"has shape {arrays[name].shape} in place of {own.shape}")
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})


def _misfit(name: str, what: str) -> Misconfigured:
    return Misconfigured(
        f"model does not fit the study: tensor {name} {what}",
        hint="install the version of the model that the study was made with",
    )
