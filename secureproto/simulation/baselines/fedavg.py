"""FedAvg: one model for all, the mean of the sites' models weighted by their numbers of records.

Source: McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, Algorithm 1. E is the study's local epochs, B its batch size, C its
participation. `tuned` is FedAvg with local fine-tuning.
"""

from collections.abc import Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from secureproto.aggregation.extractor import ExtractorMean
from secureproto.aggregation.layout import published
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.learning.arrays import Arrays, load_arrays, to_arrays
from secureproto.learning.model import Model, build, model_schema
from secureproto.simulation.inprocess import (
    Outcome,
    Sites,
    check_sites,
    local_training,
    outcome,
    participants,
    pieces,
)
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import EXTRACTOR, HEAD, upload_schema
from secureproto.wire.tensors import TensorSchema


def run(sites: Sites, study: StudyFile, *, allowed_factories: Collection[str] = ()) -> dict[str, Outcome]:
    """Scores by site.

    Raises:
        Misconfigured: a site without records, or a model that cannot be built or diverges.
        PolicyDenied: the model's factory is not allowed.
    """
    check_sites(sites)
    model = build(study, allowed_factories)
    weights = train_federation(model, sites, study)
    found: dict[str, Outcome] = {}
    for site, data in sorted(sites.items()):
        load_arrays(model, weights)
        found[site] = outcome(model, data, study=study, site=site, prototypes=_nobody(model))
    return found


def train_federation(model: Model, sites: Sites, study: StudyFile) -> Arrays:
    """All rounds, from `model`'s weights as w_0; `model` is where the sites train, one after the other."""
    schema = _whole_model(model, study)
    weights = to_arrays(model)
    for number in range(study.rounds.total):  # for each round t
        updates: dict[str, Arrays] = {}
        for site in participants(study, sites, number):  # for each client k of S_t: ClientUpdate(k, w_t)
            load_arrays(model, weights)
            data = sites[site].train
            local_training(model, data, study=study, site=site, round_number=number, prototypes=_nobody(model))
            updates[site] = to_arrays(model)
        weights = _mean(schema, updates, {site: len(sites[site].train) for site in updates})
    return weights


def _nobody(model: Model) -> GlobalPrototypes:
    return GlobalPrototypes.absent(model.classes, model.embedding_width)


def _whole_model(model: Model, study: StudyFile) -> TensorSchema:
    tensors = upload_schema(model_schema(model, study)).tensors
    return TensorSchema(tuple(tensor for tensor in tensors if tensor.name.startswith((EXTRACTOR, HEAD))))


def _mean(schema: TensorSchema, updates: Mapping[str, Arrays], records: Mapping[str, int]) -> Arrays:
    """w_{t+1} = Σ_k (n_k / n) w_{t+1}^k over the participants."""
    mean = ExtractorMean(schema.tensors)
    for site in sorted(updates):
        mean.begin(records[site], site=site)
        for piece in pieces(schema, updates[site]):
            mean.add(piece.tensor.name, piece.offset, piece.values)
        mean.end()
    result: dict[str, NDArray[Any]] = {**mean.result()}
    return {tensor.name: published(tensor, result[tensor.name]) for tensor in schema.tensors}
