"""The four hospitals of the heart disease data, with the split of the FLamby benchmark (Ogier du Terrail et al.,
NeurIPS 2022, Fed-Heart-Disease).

Invariant: the 740 rows of that benchmark and no other, whatever the split of the simulation: scores compare with each
other and with the published ones (`secureproto/simulation/heart/README.md`) only over the same patients.
"""

from secureproto.data.gathering import Marked
from secureproto.data.settings import CsvSettings
from secureproto.data.tabular import CsvSource
from secureproto.errors import Misconfigured
from secureproto.simulation.data.files import NOTHING_HELD_OUT, reading
from secureproto.simulation.data.reading import Reading
from secureproto.simulation.heart.hospitals import SPLIT_COLUMN, data_path
from secureproto.study.schema import StudyFile

SITE_COLUMN = "site"


def read_heart(study: StudyFile) -> Reading:
    """All four hospitals, under the names of `hospitals.HOSPITALS`. A missing value is what the study says it is.

    Raises:
        Misconfigured: the study has other columns or classes than the data.
    """
    settings = CsvSettings(kind="csv", path=data_path(), split_column=SPLIT_COLUMN, hold_out=0)
    try:
        loaded, train, test = CsvSource(settings, NOTHING_HELD_OUT).load_marked(study, SITE_COLUMN)
    except Misconfigured as error:  # the file is ours: what does not fit is the study
        raise Misconfigured(error.message, hint="take the study file of heart, or features out of it") from None
    named = Marked(loaded, tuple(map(_site_id, train)), tuple(map(_site_id, test)))
    return reading([named], natural=True, divided=True)


def _site_id(written: str) -> str:
    return written.replace("_", "-")  # the file writes long_beach
