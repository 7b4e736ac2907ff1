"""A private study over the records of `support.learning`, for tests of rounds."""

from typing import Any

from secureproto.study.schema import StudyFile
from support.learning import tabular_study


def private_study(
    *, noise: float = 0.5, prototype_noise: float = 0.05, release_every: int = 1, **sections: Any
) -> StudyFile:
    """Large batches and little noise: what is learned can be seen; `sections` as of `tabular_study`."""
    privacy = {
        "max_epsilon_study": 10_000.0,
        "max_delta": 1e-5,
        "training": {
            "noise_multiplier": noise,
            "max_grad_norm": 1.0,
            "sample_rate": 0.5,
            "steps": 5,
            "expected_batch": 10.0,
            "learning_rate": 1.0,
        },
        "prototypes": {"noise_multiplier": prototype_noise, "release_every": release_every, "moving_average": 0.0},
    }
    model = {"normalise_embedding": True, **sections.pop("model", {})}
    return tabular_study(**{"model": model, "privacy": {**privacy, **sections.pop("privacy", {})}, **sections})
