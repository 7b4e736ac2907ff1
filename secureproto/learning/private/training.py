"""Local training of extractor and head under DP-SGD: what takes the place of `learning.training.train`.

    1. Check the model (`checks.check_private`), and keep a copy of every tensor that is not trained.
    2. For each of the plan's steps, neither more nor fewer:
       a. draw the records, each with the plan's rate;
       b. in chunks of a public size, add up their clipped gradients; a bad record adds nothing;
       c. noise, divisor, SGD (`optimizer`). A step without records is one.
    3. Leave the model in evaluation mode, with no hook and no gradient on it.

Invariants: the number of steps, of draws of noise, the divisor and the noise do not depend on the records; no record
can stop the training, or change what another adds; a tensor that is not trained is byte for byte as it was.
The caller owes: a budget reserved before the data were opened, records that were transformed one by one, and that
nothing but the model's state dict travels. `PrivateSummary.local` is the site's own.

Source: PRIVACY.md, "DP-SGD" and "Before the clip"; Abadi et al., CCS 2016, algorithm 1.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.learning.losses import PrototypeLoss
from secureproto.learning.model import Model
from secureproto.learning.private import entropy
from secureproto.learning.private.checks import check_private, clipper
from secureproto.learning.private.clipping import Clipped, Clipper
from secureproto.learning.private.hooks import strip
from secureproto.learning.private.noise import NoiseSource, SecureNoise
from secureproto.learning.private.optimizer import PrivateOptimizer
from secureproto.learning.private.sampler import PoissonSampler, Sampler
from secureproto.learning.seeding import reproducible
from secureproto.learning.training import Diverged, Progress, TrainingSummary
from secureproto.study.privacy import PrivateTraining

LARGEST_INPUT = 1e6  # inputs have public ranges of about 1: beyond it a record is broken
CHUNK = 256  # records in one pass
CHUNK_BYTES = 2**28  # of gradients of single records in one pass


@dataclass(frozen=True)
class Sources:
    """Where sampling and noise come from. Anything but the default is for tests and audits."""

    sampler: Sampler
    noise: NoiseSource


@dataclass(frozen=True)
class LocalFigures:
    """Of the records themselves, without noise: the site's own, never sent, exported or measured.

    `visits`: records drawn, over all steps. `isolated`: records of the set that a step had to leave out.
    `summary`: means over the visits that were not; zeros if there were none.
    """

    visits: int
    isolated: int
    summary: TrainingSummary


@dataclass(frozen=True)
class PrivateSummary:
    """What was executed: steps, σ and how many numbers of noise were added; follows from the plan and the model.

    `noise_multiplier` is 0 if the noise was off.
    """

    steps: int
    noise_multiplier: float
    noise_draws: int
    local: LocalFigures


class _Tally:
    """Local figures, added up in float64."""

    def __init__(self, records: int) -> None:
        self.isolated = np.zeros(records, dtype=bool)
        self.visits = self.used = 0
        self.sums = torch.zeros(3, dtype=torch.float64)

    def add(self, rows: NDArray[np.int64], found: Clipped) -> None:
        self.used += int(found.kept.sum())
        self.sums += torch.stack([term[found.kept].sum(dtype=torch.float64) for term in found.terms])
        self.isolated[rows[~found.kept.numpy()]] = True

    def figures(self, steps: int) -> LocalFigures:
        cross_entropy, alignment, norm = (self.sums / max(self.used, 1)).tolist()
        summary = TrainingSummary(steps, cross_entropy, alignment, norm)
        return LocalFigures(self.visits, int(self.isolated.sum()), summary)


def train_privately(
    model: Model,
    data: Records,
    *,
    training: PrivateTraining,
    loss: PrototypeLoss,
    sources: Sources | None = None,
    progress: Progress | None = None,
) -> PrivateSummary:
    """Train `model` in place for exactly `training.steps` steps, as the module says. `data` may be empty.

    Raises:
        Misconfigured: the model cannot be trained privately (`check_private`); nothing was changed.
        Diverged: a trained tensor is no longer finite. It follows from the noisy tensors alone.
        ValueError: a tensor was frozen or unfrozen while training ran.
    """
    check_private(model, data.x.shape[1:], gradients=training.gradients)
    tally = _Tally(len(data))
    with ExitStack() as stack:
        stack.callback(strip, model)
        stack.callback(model.eval)
        # torch's generator has no part in this: what a layer of another's might draw is not to be foreseen
        stack.enter_context(reproducible(int(entropy.integers(1)[0] >> np.uint64(entropy.BITS - 32))))
        sources = sources or Sources(PoissonSampler(), stack.enter_context(SecureNoise()))
        trained = _trained(model)
        finder = clipper(model, loss, training)
        stack.callback(finder.close)
        optimizer = PrivateOptimizer(trained, training=training, noise=sources.noise)
        untrained = _Untrained(model)
        model.train()
        for done in range(1, training.steps + 1):
            rows = sources.sampler.draw(len(data), training.sample_rate)
            tally.visits += len(rows)
            for some in _chunks(rows, trained):
                _require_wrapped(optimizer, model)
                for used, found in _isolating(finder, data, some, model.classes, tally):
                    optimizer.accumulate(found.sums)
                    tally.add(used, found)
                untrained.restore()
            _require_wrapped(optimizer, model)
            optimizer.step()
            if progress is not None:
                progress(done, training.steps)
    untrained.require_unchanged()
    _require_finite(model)
    executed = training.noise_multiplier * sources.noise.scale
    return PrivateSummary(training.steps, executed, optimizer.draws, tally.figures(training.steps))


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _require_wrapped(optimizer: PrivateOptimizer, model: Model) -> None:
    """A tensor unfrozen later would be trained without noise; one frozen later would get noise and lose its bytes."""
    if not optimizer.wraps(_trained(model)):
        raise ValueError("a tensor was frozen or unfrozen after the private training had begun")


def _chunks(rows: NDArray[np.int64], trained: list[nn.Parameter]) -> Iterator[NDArray[np.int64]]:
    """A large draw in parts, so that it needs no more memory; their size follows from the model alone."""
    weights = 4 * sum(parameter.numel() for parameter in trained)
    size = max(1, min(CHUNK, CHUNK_BYTES // weights))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _isolating(
    finder: Clipper, data: Records, rows: NDArray[np.int64], classes: int, tally: _Tally
) -> Iterator[tuple[NDArray[np.int64], Clipped]]:
    """The clipped sums of the records that have a gradient; the others are noted, and that is all."""
    x, y = data.x[rows], data.y[rows]
    usable = _usable(x, y, classes)
    tally.isolated[rows[~usable]] = True
    if not usable.all():
        rows, x, y = rows[usable], x[usable], y[usable]
    if len(rows) == 0:
        return
    try:
        found = finder.clipped_sum(torch.from_numpy(x), torch.from_numpy(y))
    except (RuntimeError, ValueError, IndexError, ArithmeticError):
        # a failure that one record can cause would be a release: the others go on without it
        if len(rows) == 1:
            tally.isolated[rows] = True
            return
        middle = len(rows) // 2
        for half in (rows[:middle], rows[middle:]):
            yield from _isolating(finder, data, half, classes, tally)
        return
    yield rows, found


def _usable(x: NDArray[np.float32], y: NDArray[np.int64], classes: int) -> NDArray[np.bool_]:
    """(n,): inputs that are numbers of a size that can occur, and a class of the model."""
    flat = np.abs(x.reshape(len(x), -1))
    usable: NDArray[np.bool_] = (flat <= LARGEST_INPUT).all(axis=1) & (y >= 0) & (y < classes)  # NaN compares false
    return usable


class _Untrained:
    """Every tensor of the model that is not trained, as it was received.

    A buffer that a pass over records wrote would carry them out, and from one step into the next: it is put back
    after each chunk.
    """

    def __init__(self, model: Model) -> None:
        trained = {id(parameter) for parameter in _trained(model)}
        tensors: dict[str, Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self._kept = [(name, t, t.detach().clone()) for name, t in tensors.items() if id(t) not in trained]

    @torch.no_grad()
    def restore(self) -> None:
        for _, tensor, copy in self._kept:
            tensor.copy_(copy)

    def require_unchanged(self) -> None:
        for name, tensor, copy in self._kept:
            if _bytes(tensor) != _bytes(copy):
                raise Misconfigured(
                    f"model: tensor {name} is not trained, and was changed", hint="use a layer without statistics"
                )


def _bytes(tensor: Tensor) -> bytes:
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array.tobytes()


def _require_finite(model: Model) -> None:
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise Diverged(name)
