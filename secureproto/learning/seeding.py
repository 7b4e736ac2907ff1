"""Randomness of learning: derived generators, and a fence around torch's global one.

Invariants: equal seeds give equal numbers on one machine, whatever ran before; nothing here leaves torch's global
generator, or its number of threads, changed. These seeds are reproducible and not secret: keys, ids and noise
never come from here.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from secureproto.study.schema import StudyFile
from secureproto.wire import canonical

LABEL = "secureproto/v1/learning-seed"


def generator(seed: int, *path: str | int) -> torch.Generator:
    """A CPU generator for one purpose, named by `path` (site, round, …).

    torch keeps 32 bits of a CPU seed, so the path is hashed: neighbouring numbers give unrelated streams.
    """
    digest = canonical.labelled_digest(LABEL, canonical.encode([seed, *path]))
    return torch.Generator().manual_seed(int(digest[:8], 16))


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Inside, torch draws from `seed` and computes on one thread; afterwards both are as they were.

    Layers draw their first weights, and dropout its masks, from the global generator: there is no way to hand
    them another. One thread, because the order of a sum over several is not fixed.
    """
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def round_generator(study: StudyFile, *, site: str, round_number: int) -> torch.Generator:
    """The generator of one site's training in one round of a study.

    A training that a crash cut short gives the same update when it is done again, and a simulated site the same
    as a real one.
    """
    return generator(study.model.seed, study.name, site, round_number)
