"""A run's record and arrays for the tests of its file, and what stands in a file's place."""

import socket
from pathlib import Path

import numpy as np

from secureproto.learning.arrays import Arrays
from secureproto.simulation.history import Measured, RoundRecord, SiteRound

MEASURED = Measured(accuracy=0.1 + 0.2, balanced_accuracy=1 / 3, auc=None, n=7)
RECORD = RoundRecord(
    number=0,
    sites={"böse 'site'": SiteRound(points={"received": {"test": MEASURED}}, steps=3, cross_entropy=1e-300)},
    relation=((0.5, 0.5), (0.25, 0.75)),
    loss=float(np.float32(0.1)),
    seconds=1.5,
)


def arrays(value: float = 1.0, n: int = 3) -> Arrays:
    return {"w": np.full(n, value, np.float32)}


def listening(path: Path) -> None:
    """A socket at a path."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
