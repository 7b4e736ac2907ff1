"""The installed study on the four hospitals: joining pays on average, as the method's own sketch found."""

import csv
from itertools import groupby

import numpy as np

from secureproto.learning.dataset import Records
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.heart.hospitals import data_path, study_path
from secureproto.simulation.method import Method
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.simulation.run import with_seed
from secureproto.study.features import FeatureSchema, LabelSchema
from secureproto.study.file import load
from secureproto.study.schema import StudyFile


def hospitals(study: StudyFile) -> dict[str, SiteData]:
    features, label = FeatureSchema(study), LabelSchema(study)

    def records(rows: list[dict[str, str]], split: str) -> Records:
        kept = [row for row in rows if row["split"] == split]
        y = np.array([label.index(row[label.column]) for row in kept], dtype=np.int64)
        return Records(np.stack([features.encode(row) for row in kept]), y)

    with data_path().open(encoding="utf-8", newline="") as file:
        by_site = groupby(csv.DictReader(file), key=lambda row: row["site"])
        rows_of = {site: list(rows) for site, rows in by_site}
    return {site: SiteData(records(rows, "train"), records(rows, "test")) for site, rows in rows_of.items()}


def mean_accuracy(method: Method, sites: GivenSites) -> float:
    return float(np.mean([outcome.tuned.accuracy for outcome in outcomes(method, sites).values()]))


def test_joining_pays() -> None:
    study = load(study_path())
    sites = hospitals(study)
    assert {site: len(data.train) for site, data in sites.items()} == {
        "cleveland": 199,
        "hungary": 172,
        "switzerland": 30,
        "long_beach": 85,
    }
    means = np.array(
        [
            [mean_accuracy(kind(with_seed(study, seed)), GivenSites(sites)) for kind in (Local, ProtoAligned)]
            for seed in range(3)
        ]
    )
    alone, joined = means.mean(axis=0)
    # over 12 seeds 0.806 and 0.828, each with a deviation of 0.007 a seed: three seeds stay within 0.012
    assert 0.794 < alone < 0.818
    assert 0.816 < joined < 0.840
