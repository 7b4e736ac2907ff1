"""A CSV file as a data source: the study's columns, the site's names of them."""

from collections.abc import Mapping

from secureproto.data.csvfile import open_table
from secureproto.data.gathering import Gathering, Marked
from secureproto.data.holdout import HoldOut, Side, given_side
from secureproto.data.settings import CsvSettings
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured
from secureproto.study.features import BadRecord, BadValue, FeatureSchema, LabelSchema
from secureproto.study.schema import StudyFile

# the id or split, the mark and the id, beside the study's columns; no column of a study can have these names
_SIDE, _MARK, _ID = "\0side", "\0mark", "\0id"


class CsvSource:
    """Reads `settings.path`. A DataSource."""

    def __init__(self, settings: CsvSettings, hold_out: HoldOut) -> None:
        self._settings = settings
        self._hold_out = hold_out

    def load(self, study: StudyFile) -> Loaded:
        """Each row, encoded by itself; see `source.DataSource`."""
        return self._gather(study, None).loaded()

    def load_marked(self, study: StudyFile, column: str) -> Marked:
        """The same load, and what stands in one further column of the file (the site of a record, in a simulation).

        A row in which it is empty cannot be read. Raises as `load`.
        """
        return self._gather(study, column).marked()

    def _gather(self, study: StudyFile, mark: str | None) -> Gathering:
        features, labels = FeatureSchema(study), LabelSchema(study)
        name = str(self._settings.path)
        if study.data.kind != "tabular":
            raise Misconfigured(f"{name}: a CSV file in an image study", hint="set data.kind to image_folder or npz")
        wanted = own_columns((*features.names, labels.column), self._settings.columns)
        divider = self._settings.split_column or self._settings.id_column
        if divider is not None:
            wanted[_SIDE] = divider
        if mark is not None:
            wanted[_MARK] = mark
        gathering, absent = Gathering(study, name), {"", *study.data.missing_values}
        with open_table(self._settings.path, self._settings.delimiter, list(wanted.values())) as (columns, rows):
            if self._settings.id_column is not None and self._settings.id_column in columns:
                wanted[_ID] = self._settings.id_column
            for row in rows:
                try:
                    fields = columns.take(row, wanted)
                    side = self._side(fields.get(_SIDE, ""))
                    if side is None:
                        gathering.leave_out()
                        continue
                    if mark is not None and fields[_MARK] in absent:
                        raise BadValue(mark, "missing")
                    label = labels.index(fields[labels.column])
                    x = features.encode(fields)
                    gathering.add(x, label, side, mark=fields.get(_MARK, ""), record_id=fields.get(_ID, ""))
                    gathering.clamped(features.outside_range(fields))
                except BadRecord as error:
                    gathering.isolation.isolate(row.where, error)
        return gathering

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
