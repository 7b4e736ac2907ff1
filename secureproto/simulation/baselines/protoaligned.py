"""Prototype-aligned personalised federated learning: one extractor for all, a head for each site.

Source: the patent of Zhejiang University (Wang Yongxiang, Cai Zhengong, 2024), "A personalised federated learning
method based on prototype-aligned learning"; nearest published relatives: FedProto (Tan et al., AAAI 2022) for the
loss, FedPAC (Xu, Tong, Huang, ICLR 2023) for mixed heads. The method belongs to its owners (see NOTICE). The numbers
below are the steps of a round there.

Every step runs the code of the real federation: a site's part is `learning.exchange`, the server's is
`aggregation.round`.
"""

from collections.abc import Collection, Mapping
from functools import partial

from secureproto.aggregation.options import aggregation_options
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.aggregation.round import RoundAccumulator, RoundResult, aggregate
from secureproto.aggregation.stopping import StoppingRule, decide
from secureproto.learning.arrays import Arrays
from secureproto.learning.exchange import ArrayMap, Received, initial_arrays, receive, site_round
from secureproto.learning.model import Model, build, model_schema
from secureproto.learning.seeding import round_generator
from secureproto.simulation.inprocess import Outcome, Sites, check_sites, outcome, participants, pieces
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import PROTOTYPE_AGE, PROTOTYPES, upload_schema
from secureproto.wire.tensors import TensorSchema


def run(sites: Sites, study: StudyFile, *, allowed_factories: Collection[str] = ()) -> dict[str, Outcome]:
    """Scores by site.

    Raises:
        Misconfigured: a site without records, or a model that cannot be built or diverges.
        PolicyDenied: the model's factory is not allowed.
    """
    check_sites(sites)
    model = build(study, allowed_factories)
    shared, heads = train_federation(model, sites, study)
    found: dict[str, Outcome] = {}
    for site, data in sorted(sites.items()):
        prototypes = receive(model, shared, heads[site])
        found[site] = outcome(model, data, study=study, site=site, prototypes=prototypes)
    return found


def train_federation(model: Model, sites: Sites, study: StudyFile) -> tuple[ArrayMap, Mapping[str, ArrayMap]]:
    """All rounds of a study that starts from `model`'s weights: (shared arrays, each site's head arrays).

    `model` is where the sites train, one after the other; its weights afterwards mean nothing.
    """
    schema = upload_schema(model_schema(model, study))
    shared: ArrayMap
    shared, common = initial_arrays(model)  # 1. one common head, and no global prototype
    heads: dict[str, ArrayMap] = dict.fromkeys(sorted(sites), common)
    losses: list[float] = []
    while decide(_rule(study), rounds_completed=len(losses), losses=losses) is None:  # 6.
        number = len(losses)
        uploads: dict[str, Arrays] = {}
        for site in participants(study, sites, number):  # 2. – 4.
            uploads[site] = site_round(
                model,
                sites[site].train,
                study=study,
                received=Received(number, shared, heads[site]),
                generator=round_generator(study, site=site, round_number=number),
            ).arrays
        result = _aggregate(schema, study, uploads, shared=shared, heads=heads)  # 5.
        shared = result.shared_arrays()
        heads = {site: result.head_arrays(site) for site in sorted(sites)}
        losses.append(0.0 if result.loss is None else result.loss)  # without a stopping rule nobody looks at it
    return shared, heads


def _rule(study: StudyFile) -> StoppingRule:
    if study.stopping is None:
        return StoppingRule(study.rounds.total)
    return StoppingRule(study.rounds.total, study.stopping.relative_tolerance, study.stopping.patience)


def _aggregate(
    schema: TensorSchema,
    study: StudyFile,
    uploads: Mapping[str, Arrays],
    *,
    shared: ArrayMap,
    heads: Mapping[str, ArrayMap],
) -> RoundResult:
    previous = GlobalPrototypes(shared[PROTOTYPES], shared[PROTOTYPE_AGE])
    accumulator = RoundAccumulator(schema, aggregation_options(study), previous=previous, sites=uploads.keys())
    flatten = accumulator.layout.head.flatten
    outside = {site: flatten(head) for site, head in heads.items() if site not in uploads}
    streams = {site: partial(pieces, schema, arrays) for site, arrays in uploads.items()}
    return aggregate(streams, accumulator, outside=outside)
