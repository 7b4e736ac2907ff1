"""The ground that all algorithms of a comparison stand on: sites, who takes part, training and what is scored.

Invariants: learning and aggregation are those of the real federation (`secureproto.learning.exchange`,
`secureproto.aggregation`), there is no second copy of either; all algorithms start from the same weights and draw
the same order of records at a site in a round; equal studies and records give equal scores.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import Scores, evaluate
from secureproto.learning.losses import round_loss
from secureproto.learning.model import Model
from secureproto.learning.seeding import round_generator
from secureproto.learning.training import train
from secureproto.study.schema import StudyFile
from secureproto.wire.tensors import Piece, TensorSchema


class SiteData(NamedTuple):
    """The records of one site."""

    train: Records
    test: Records


Sites = Mapping[str, SiteData]


@dataclass(frozen=True)
class Outcome:
    """Scores of one site on its test records at the two points that are reported.

    `received`: after the last round, as the site has it before training again. `tuned`: after one more local
    training. Equal where an algorithm does not train.
    """

    received: Scores
    tuned: Scores


def with_seed(study: StudyFile, seed: int) -> StudyFile:
    """The same study with other first weights and another order of records."""
    return study.model_copy(update={"model": study.model.model_copy(update={"seed": seed})})


def check_sites(sites: Sites) -> None:
    """Raise before anything is trained.

    Raises:
        Misconfigured: no site, or one without training or test records.
    """
    if not sites:
        raise Misconfigured("simulation: there are no sites")
    for site, data in sorted(sites.items()):
        for part, records in (("training", data.train), ("test", data.test)):
            if len(records) == 0:
                raise Misconfigured(f"simulation: site {site} has no {part} records", hint="leave the site out")


def participants(study: StudyFile, sites: Collection[str], round_number: int) -> list[str]:
    """The sites of a round, sorted: a share of `participation`, at least the quorum, drawn from the study's seed."""
    ordered = sorted(sites)
    wanted = max(ceil(study.rounds.participation * len(ordered)), study.rounds.quorum)
    if wanted >= len(ordered):
        return ordered
    numbers = np.random.default_rng([study.model.seed, round_number])
    return sorted(numbers.choice(ordered, size=wanted, replace=False).tolist())


def local_training(
    model: Model, data: Records, *, study: StudyFile, site: str, round_number: int, prototypes: GlobalPrototypes
) -> None:
    """One local training of `model` in place, as in a round of this number with these prototypes."""
    train(
        model,
        data,
        training=study.training,
        loss=round_loss(study.training, round_number, prototypes),
        generator=round_generator(study, site=site, round_number=round_number),
    )


def outcome(model: Model, data: SiteData, *, study: StudyFile, site: str, prototypes: GlobalPrototypes) -> Outcome:
    """Scores of `model` as it is, and after one more local training."""
    received = evaluate(model, data.test)
    total = study.rounds.total
    local_training(model, data.train, study=study, site=site, round_number=total, prototypes=prototypes)
    return Outcome(received, evaluate(model, data.test))


def pieces(schema: TensorSchema, arrays: Mapping[str, NDArray[Any]]) -> Iterator[Piece]:
    """Arrays as the stream that aggregation takes, each tensor in one piece."""
    for tensor in schema.tensors:
        yield Piece(tensor, 0, arrays[tensor.name].reshape(-1))
