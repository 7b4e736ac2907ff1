"""A CSV file as a data source: the study's columns, the site's names of them."""

from collections.abc import Mapping

from secureproto.errors import Misconfigured
from secureproto.study.features import BadRecord, FeatureSchema, LabelSchema
from secureproto.study.schema import StudyFile
from secureproto_client.data.csvfile import open_table
from secureproto_client.data.gathering import Gathering
from secureproto_client.data.holdout import HoldOut, Side, given_side
from secureproto_client.data.settings import CsvSettings
from secureproto_client.data.source import Loaded

_SIDE = "\0side"  # the id or split beside the study's columns; no column of a study can have this name


class CsvSource:
    """Reads `settings.path`. A DataSource."""

    def __init__(self, settings: CsvSettings, hold_out: HoldOut) -> None:
        self._settings = settings
        self._hold_out = hold_out

    def load(self, study: StudyFile) -> Loaded:
        """Each row, encoded by itself; see `source.DataSource`."""
        features, labels = FeatureSchema(study), LabelSchema(study)
        name = str(self._settings.path)
        if study.data.kind != "tabular":
            raise Misconfigured(f"{name}: a CSV file in an image study", hint="set data.kind to image_folder or npz")
        wanted = own_columns((*features.names, labels.column), self._settings.columns)
        divider = self._settings.split_column or self._settings.id_column
        if divider is not None:
            wanted[_SIDE] = divider
        gathering = Gathering(study, name)
        with open_table(self._settings.path, self._settings.delimiter, list(wanted.values())) as (columns, rows):
            for row in rows:
                try:
                    fields = columns.take(row, wanted)
                    side = self._side(fields.get(_SIDE, ""))
                    if side is None:
                        gathering.leave_out()
                        continue
                    gathering.add(features.encode(fields), labels.index(fields[labels.column]), side)
                    gathering.clamped(features.outside_range(fields))
                except BadRecord as error:
                    gathering.isolation.isolate(row.where, error)
        return gathering.loaded()

    def _side(self, raw: str) -> Side | None:
        return given_side(raw) if self._settings.split_column is not None else self._hold_out.side(raw)


def own_columns(names: tuple[str, ...], renamed: Mapping[str, str]) -> dict[str, str]:
    """The study's names → the file's own. Raises Misconfigured where a renamed column is not in the study."""
    unknown = [name for name in renamed if name not in names]
    if unknown:
        raise Misconfigured(
            f"data.columns: the study has no column {', '.join(unknown)}", hint=f"it has: {', '.join(names)}"
        )
    return {name: renamed.get(name, name) for name in names}
