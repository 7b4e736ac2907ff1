"""Own data only: each site trains the study's model on its own records, and nothing is exchanged.

It gets as many local trainings as a site of the federation, so what is compared is the joining alone.
Source: "Local" in the tables of FedProto (Tan et al., AAAI 2022) and FedPAC (Xu, Tong, Huang, ICLR 2023).
"""

from collections.abc import Collection

from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.learning.model import build
from secureproto.simulation.inprocess import Outcome, Sites, check_sites, local_training, outcome
from secureproto.study.schema import StudyFile


def run(sites: Sites, study: StudyFile, *, allowed_factories: Collection[str] = ()) -> dict[str, Outcome]:
    """Scores by site.

    Raises:
        Misconfigured: a site without records, or a model that cannot be built or diverges.
        PolicyDenied: the model's factory is not allowed.
    """
    check_sites(sites)
    found: dict[str, Outcome] = {}
    for site, data in sorted(sites.items()):
        model = build(study, allowed_factories)
        nobody = GlobalPrototypes.absent(model.classes, model.embedding_width)
        for number in range(study.rounds.total):
            local_training(model, data.train, study=study, site=site, round_number=number, prototypes=nobody)
        found[site] = outcome(model, data, study=study, site=site, prototypes=nobody)
    return found
