"""A published version for the question whether joining pays, and a network that must not be used."""

from typing import Any

import numpy as np

from secureproto.learning.exchange import initial_arrays
from secureproto.learning.model import build

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def published(study: Any, *, prototypes: bool = True) -> tuple[Arrays, Arrays]:
    """(shared, head) of a version that nobody trained, with prototypes as far apart as they can be."""
    shared, head = map(dict, initial_arrays(build(study)))
    if prototypes:
        shared["prototypes"] = np.eye(*shared["prototypes"].shape)
        shared["prototype_age"] = np.zeros_like(shared["prototype_age"])
    return shared, head


def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("a connection was opened")
