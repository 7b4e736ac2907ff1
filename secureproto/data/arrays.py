"""A NumPy archive as a data source: x, y, and an id or a split.

x is (n, channels, height, width), (n, height, width) for one channel, or (n, width) already encoded as the
study's features say. Unsigned bytes of images become [-1, 1] as those of image files do; floats are in [-1, 1]
and are clamped to it. y holds integers or texts, as `secureproto.study.features.LabelSchema` reads them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secureproto.data.gathering import Gathering, Marked
from secureproto.data.holdout import HoldOut, Side, given_side
from secureproto.data.npy import read_arrays
from secureproto.data.settings import NpzSettings
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured
from secureproto.study.features import BadRecord, BadValue, LabelSchema, record_shape
from secureproto.study.schema import StudyFile


class NpzSource:
    """Reads `settings.path`. A DataSource."""

    def __init__(self, settings: NpzSettings, hold_out: HoldOut) -> None:
        self._settings = settings
        self._hold_out = hold_out

    def load(self, study: StudyFile) -> Loaded:
        """Each record by itself; see `source.DataSource`."""
        return self._gather(study, None).loaded()

    def load_marked(self, study: StudyFile, array: str) -> Marked:
        """The same load, and what stands in one further array (the site of a record, in a simulation).

        A record for which it is empty cannot be read. Raises as `load`.
        """
        return self._gather(study, array).marked()

    def _gather(self, study: StudyFile, mark: str | None) -> Gathering:
        settings, arrays = self._settings, self._read(study, mark)
        x, y, divider = arrays[settings.x], arrays[settings.y], settings.split or settings.id
        labels, gathering = LabelSchema(study), Gathering(study, str(settings.path))
        for index in range(len(x)):
            try:
                divided_by = "" if divider is None else str(arrays[divider][index])
                side = self._side(divided_by)
                if side is None:
                    gathering.leave_out()
                    continue
                beside = "" if mark is None else str(arrays[mark][index]).strip()
                if mark is not None and beside in ("", *study.data.missing_values):
                    raise BadValue(mark, "missing")
                record_id = "" if settings.id is None else divided_by
                gathering.add(scaled(x[index]), _label(labels, y[index]), side, mark=beside, record_id=record_id)
                if x.dtype.kind == "f":
                    gathering.clamped(("x",) * int(np.count_nonzero(np.abs(x[index]) > 1)))
            except BadRecord as error:
                gathering.isolation.isolate(f"record {index + 1}", error)
        return gathering

    def _side(self, raw: str) -> Side | None:
        return given_side(raw) if self._settings.split is not None else self._hold_out.side(raw)

    def _read(self, study: StudyFile, mark: str | None) -> dict[str, NDArray[Any]]:
        settings = self._settings
        kinds = {settings.x: "fu" if study.data.kind == "image" else "f", settings.y: "iuU"}
        divider = settings.split or settings.id
        if divider is not None:
            kinds[divider] = "U" if settings.split is not None else "iuU"
        if mark is not None:
            kinds.setdefault(mark, "iuU")
        arrays = read_arrays(settings.path, kinds)
        x = _shaped(arrays[settings.x], study, f"{settings.path}: array {settings.x}")
        for name, array in arrays.items():
            if name != settings.x and array.shape != (len(x),):
                raise Misconfigured(f"{settings.path}: array {name}: not one entry for each of {len(x)} records")
        return {**arrays, settings.x: x}


def scaled(record: NDArray[Any]) -> NDArray[np.float32]:
    """A record as float32 in [-1, 1]: bytes v become v / 127.5 − 1, floats are clamped.

    Raises:
        BadRecord: a number that is not finite.
    """
    if record.dtype == np.uint8:
        return np.asarray(record / np.float32(127.5) - np.float32(1), dtype=np.float32)
    if not np.isfinite(record).all():
        raise BadRecord("a number is not finite")
    return np.asarray(np.clip(record, -1, 1), dtype=np.float32)


def _shaped(x: NDArray[Any], study: StudyFile, name: str) -> NDArray[Any]:
    shape = record_shape(study)
    if x.dtype.kind == "u" and x.dtype != np.uint8:
        raise Misconfigured(f"{name}: dtype {x.dtype}; allowed: uint8, or floats in [-1, 1]")
    if len(shape) == 3 and shape[0] == 1 and x.shape[1:] == shape[1:]:
        return x[:, np.newaxis]
    if x.ndim == 0 or x.shape[1:] != shape:
        raise Misconfigured(f"{name}: shape {x.shape}; the study's records need (n, {', '.join(map(str, shape))})")
    return x


def _label(labels: LabelSchema, raw: Any) -> int:
    return labels.index(str(raw)) if isinstance(raw, str) else labels.index_of_integer(int(raw))
