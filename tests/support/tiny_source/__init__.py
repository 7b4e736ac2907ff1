"""An example of a data package of a third party: a site names it as `support.tiny_source:factory`.

The site allows that name in its settings and gives its options there. It reads lines such as
`id age sex | label` from a text file; everything else is done by the parts that the project offers.
"""

from collections.abc import Mapping
from pathlib import Path

from secureproto.data.gathering import Gathering
from secureproto.data.holdout import HoldOut
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured
from secureproto.study.features import BadRecord, FeatureSchema, LabelSchema
from secureproto.study.schema import StudyFile


class LineSource:
    """Reads a file of lines. A DataSource."""

    def __init__(self, path: Path, hold_out: HoldOut) -> None:
        self._path = path
        self._hold_out = hold_out

    def load(self, study: StudyFile) -> Loaded:
        """The records of the file, one a line."""
        features, labels, gathering = FeatureSchema(study), LabelSchema(study), Gathering(study, str(self._path))
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise Misconfigured(f"{self._path}: cannot be read as text", hint="check the option path") from None
        for number, line in enumerate(lines, start=1):
            try:
                left, _, label = line.partition("|")
                record_id, *values = left.split() or [""]
                record = dict(zip(features.names, values, strict=False))
                gathering.add(features.encode(record), labels.index(label), self._hold_out.side(record_id))
            except BadRecord as error:
                gathering.isolation.isolate(f"line {number}", error)
        return gathering.loaded()


def factory(options: Mapping[str, object], hold_out: HoldOut) -> LineSource:
    """The source of a site's settings. Option `path`: the file."""
    path = options.get("path")
    if not isinstance(path, str):
        raise Misconfigured("support.tiny_source: option path is missing", hint="give the path of the file")
    return LineSource(Path(path), hold_out)
