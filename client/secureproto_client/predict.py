"""Classifying new records with a model the site holds: class and probabilities, ids carried through.

Works without the server: study, model and root documents are on the disk, each checked as it is read.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from secureproto.data.inputs import Inputs, read_inputs
from secureproto.data.settings import CsvSettings
from secureproto.errors import Misconfigured, NotFound
from secureproto.study.schema import StudyFile
from secureproto_client import settings, studies
from secureproto_client.database import Database
from secureproto_client.facts import Facts
from secureproto_client.identity import read_site_file
from secureproto_client.models import ModelStore
from secureproto_client.opening import learner_of
from secureproto_client.paths import SitePaths
from secureproto_client.pointer import Pointer
from secureproto_client.settings import Settings
from secureproto_client.studies import Study


@dataclass(frozen=True, eq=False)
class Predictions:
    """`names` (n): the records' ids. `probabilities`: (n, C) float64. `left_out`: places without a prediction."""

    study: str
    model: str
    classes: tuple[str, ...]
    names: tuple[str, ...]
    probabilities: NDArray[np.float64]
    left_out: tuple[str, ...]
    left_out_count: int

    def rows(self) -> Iterator[Mapping[str, object]]:
        """One record each: id, the most probable class, the probability of every class."""
        for name, row in zip(self.names, self.probabilities, strict=True):
            chances = {f"p_{label}": round(float(p), 6) for label, p in zip(self.classes, row, strict=True)}
            yield {"id": name, "class": self.classes[int(row.argmax())], **chances}


def predict(paths: SitePaths, records: Path, *, study: str | None = None, model: str | None = None) -> Predictions:
    """Classify the records of a CSV file, an image, or a folder of images.

    `study`: needed when the site has several. `model`: another than the one in use.

    Raises:
        NotFound: no such study or model.
        Misconfigured: the records cannot be read, or do not fit the study.
        IntegrityBroken: model or study on the disk are not what was received.
    """
    said = settings.load(paths.settings)
    known = study_of(paths, study)
    store = ModelStore(paths.models, known.name)
    name = model or Pointer(store).current()
    stored = store.load(name, known.descriptor.model)
    inputs = read_inputs(records, known.file, _csv(said, known))
    learner = learner_of(paths, said, known, site=read_site_file(paths).site)
    return _predictions(known.file, name, inputs, learner.predict(stored.shared, stored.head, inputs.x))


def write(predictions: Predictions, form: str) -> str:
    """The predictions as text: `csv` or `json`."""
    rows = list(predictions.rows())
    if form == "json":
        head = {"study": predictions.study, "model": predictions.model, "left_out": predictions.left_out_count}
        return json.dumps({**head, "predictions": rows}, indent=1, ensure_ascii=False) + "\n"
    text = io.StringIO()
    columns = ["id", "class", *(f"p_{label}" for label in predictions.classes)]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def known_studies(paths: SitePaths) -> list[Study]:
    """Every study the site has accepted, from the disk."""
    database = Database(paths.journal)
    try:
        facts = Facts(database)
        return [studies.load(paths, facts, pin.study) for pin in facts.pins()]
    finally:
        database.close()


def study_of(paths: SitePaths, name: str | None) -> Study:
    """The named study, or the only one. Raises NotFound; Misconfigured when there are several."""
    found = known_studies(paths)
    if name is not None:
        found = [study for study in found if study.name == name]
    if not found:
        raise NotFound(f"study {name} is not known here" if name else "no study is known here yet")
    if len(found) > 1:
        names = ", ".join(study.name for study in found)
        raise Misconfigured(f"this site has several studies: {names}", hint="say which: --study NAME")
    return found[0]


def _csv(said: Settings, study: Study) -> CsvSettings | None:
    """Delimiter, names of columns and id column of the site's own files, where it keeps its records in CSV."""
    data = said.study(study.name).data or said.data
    return data if isinstance(data, CsvSettings) else None


def _predictions(study: StudyFile, model: str, inputs: Inputs, probabilities: NDArray[np.float64]) -> Predictions:
    return Predictions(
        study=study.name,
        model=model,
        classes=study.classes,
        names=inputs.names,
        probabilities=probabilities,
        left_out=inputs.left_out,
        left_out_count=inputs.left_out_count,
    )
