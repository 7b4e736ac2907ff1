"""Who holds which class: what can never have a global prototype, and test records that cannot tell good from bad.

Source: `prototypes.min_holders` of the study (`aggregation.prototypes`: a class that fewer hold is not renewed). A
round that not all sites take part in may have fewer holders still: what is told here is told for all of them.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from secureproto.simulation.baselines.catalogue import make
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.partition.division import Divisions
from secureproto.simulation.population import SiteRows
from secureproto.study.schema import StudyFile

NAMED = 10  # classes; of more, the number


def never_shared(labels: Sequence[str], study: StudyFile, divisions: Divisions, y: NDArray[np.int64]) -> list[str]:
    """Lines for a person, none where every class can have one: for each number of `min_holders` that the prototype-
    aligned methods of `labels` have, and each different split. `y`: (n,) classes of the pool's records."""
    methods = [make(label, study) for label in labels]
    wanted = sorted({one.study.prototypes.min_holders for one in methods if isinstance(one, ProtoAligned)})
    found = (
        _line(least, study.classes, holders(partition.sites.values(), y, len(study.classes)))
        for least in wanted
        for partition in divisions.partitions
    )
    return list(dict.fromkeys(line for line in found if line))


def one_class_tested(classes: Sequence[str], divisions: Divisions, y: NDArray[np.int64]) -> list[str]:
    """A line where all test records of a partition are of one class. `y`: (n,) classes of the pool's records."""
    found = []
    for partition in divisions.partitions:
        tested = np.unique(np.concatenate([y[rows.test] for rows in partition.sites.values()]))
        if len(tested) == 1:
            found.append(
                f"all test records are of class {classes[tested[0]]}: who always says so is always right, "
                "and no score here tells a good model from a bad one"
            )
    return list(dict.fromkeys(found))


def holders(sites: Iterable[SiteRows], y: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """(C,) how many sites train on records of each class."""
    found = np.zeros(classes, dtype=np.int64)
    for rows in sites:
        found[np.unique(y[rows.train])] += 1
    return found


def _line(least: int, classes: Sequence[str], found: NDArray[np.int64]) -> str:
    few = np.flatnonzero(found < least)
    if not len(few):
        return ""
    named = ", ".join(f"{classes[index]} ({found[index]})" for index in few[:NAMED])
    more = f" and {len(few) - NAMED} more" if len(few) > NAMED else ""
    start = f"prototypes.min_holders is {least}: "
    if len(few) == len(classes):
        return f"{start}no class has so many holders ({named}{more}): the alignment term does nothing"
    return f"{start}no global prototype of {named}{more}; in brackets the sites that train on the class"
