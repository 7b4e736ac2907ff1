"""Pools of records for the tests of partitions: labels matter there, inputs do not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secureproto.learning.dataset import Records
from secureproto.simulation.partition.assign import assign
from secureproto.simulation.partition.division import Options, Partition
from secureproto.simulation.partition.spec import parse
from secureproto.simulation.population import Pool

I64 = NDArray[np.int64]


def names(classes: int) -> list[str]:
    """Names of classes."""
    return [f"kind {j}" for j in range(classes)]


def pool_of(
    counts: Sequence[int], held: Sequence[int] | None = None, *, sites: int = 0, shape: tuple[int, ...] = (1,)
) -> Pool:
    """`counts` records of each class, then `held` held-out ones, in a mixed order; natural sites in turn."""
    both = [counts] if held is None else [counts, held]
    y = np.concatenate([np.repeat(np.arange(len(part)), part) for part in both]).astype(np.int64)
    order = np.random.default_rng(len(y)).permutation(len(y))
    x = np.arange(len(y), dtype=np.float32).reshape(-1, *[1] * len(shape)) * np.ones(shape, np.float32)
    natural = np.array([f"place-{i % sites}" for i in range(len(y))]) if sites else None
    return Pool(Records(x, y[order]), natural, None if held is None else (np.arange(len(y)) >= sum(counts))[order])


def divided(pool: Pool, text: str, *, classes: int = 0, **options: Any) -> Partition:
    """The partition of a pool by a scheme's text."""
    classes = classes or int(pool.records.y.max()) + 1
    return assign(pool, parse(text), Options(**options), classes=names(classes), digest="d")


def own_counts(partition: Partition, pool: Pool, classes: int, part: str = "training") -> I64:
    """(sites, C) records of each class; "training" includes validation."""
    parts = [
        rows.test if part == "test" else np.concatenate([rows.train, rows.validation])
        for rows in partition.sites.values()
    ]
    return np.stack([np.bincount(pool.records.y[rows], minlength=classes) for rows in parts]).astype(np.int64)
