"""Studies and records for the tests of learning and simulation: small, made on the spot, never read from files."""

from typing import Any

import numpy as np
import torch

from secureproto.learning.dataset import Records
from secureproto.study.schema import StudyFile


def tabular_study(width: int = 4, classes: int = 3, **sections: dict[str, Any]) -> StudyFile:
    """A study of `width` numbers; `sections` are merged over the defaults, key by key."""
    table: dict[str, Any] = {
        "name": "test",
        "classes": [f"class {j}" for j in range(classes)],
        "model": {"name": "mlp", "embedding_width": 8, "seed": 7},
        "data": {
            "kind": "tabular",
            "features": [{"kind": "number", "name": f"x{i}", "min": -1.0, "max": 1.0} for i in range(width)],
            "label": {"column": "y"},
        },
        "training": {"local_epochs": 2, "batch_size": 16, "learning_rate": 0.1},
        "rounds": {"total": 3, "quorum": 2, "deadline": "10m"},
    }
    return StudyFile.model_validate({**table, **{key: {**table.get(key, {}), **sections[key]} for key in sections}})


def image_study(
    model: str, *, shape: tuple[int, int, int] = (1, 28, 28), classes: int = 10, width: int = 128
) -> StudyFile:
    """A study of images for one of the built-in models."""
    channels, height, width_pixels = shape
    return tabular_study(
        classes=classes,
        model={
            "name": model,
            "embedding_width": width,
            "channels": channels,
            "height": height,
            "width": width_pixels,
        },
        data={"kind": "image", "features": [], "label": {}},
    )


def blobs(n: int, *, width: int = 4, classes: int = 3, seed: int = 0) -> Records:
    """Records in well separated clouds, one a class, with classes in turn."""
    numbers = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, width))
    y = np.arange(n, dtype=np.int64) % classes
    x = centres[y] + 0.1 * numbers.normal(size=(n, width))
    return Records(x.astype(np.float32), y)


def torch_generator(seed: int = 0) -> torch.Generator:
    """A generator of torch."""
    return torch.Generator().manual_seed(seed)
