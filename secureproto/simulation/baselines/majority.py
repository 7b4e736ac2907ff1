"""The majority class of a site's training labels, for everybody: what any model has to beat.

It is certain of that class for every record, so its AUC is 0.5 and its balanced accuracy one over the classes.
"""

from collections.abc import Collection

import numpy as np

from secureproto.learning.evaluate import Scores, majority_class, score
from secureproto.simulation.inprocess import Outcome, SiteData, Sites, check_sites
from secureproto.study.schema import StudyFile


def run(sites: Sites, study: StudyFile, *, allowed_factories: Collection[str] = ()) -> dict[str, Outcome]:
    """Scores by site. No model is built, so no factory is needed.

    Raises:
        Misconfigured: a site without records.
    """
    del allowed_factories  # every algorithm is called alike
    check_sites(sites)
    found = {site: _scores(data, len(study.classes)) for site, data in sorted(sites.items())}
    return {site: Outcome(scores, scores) for site, scores in found.items()}


def _scores(data: SiteData, classes: int) -> Scores:
    certain = np.eye(classes)[majority_class(data.train.y, classes)]
    return score(data.test.y, np.tile(certain, (len(data.test), 1)))
