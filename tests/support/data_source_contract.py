"""The contract of a data source, as a test class that any package can run on its own.

class TestMine(DataSourceContract):
    def study(self) -> StudyFile: ...
    def open(self, directory: Path, count: int, share: float) -> DataSource: ...
    def spoil(self, directory: Path) -> str: ...
"""

from pathlib import Path

import numpy as np
import pytest

from secureproto.data.source import DataSource, Isolated, check_loaded
from secureproto.errors import Misconfigured
from secureproto.learning.dataset import Records
from secureproto.study.features import record_shape
from secureproto.study.schema import StudyFile

KEY = bytes(range(32))
COUNT = 12


class DataSourceContract:
    """What a site's agent relies on. Override `study`, `open` and `spoil`."""

    def study(self) -> StudyFile:
        """A study that the source can serve, of at least two classes."""
        raise pytest.UsageError("override study")

    def open(self, directory: Path, count: int, share: float) -> DataSource:
        """A source over the first `count` of a fixed sequence of records that all differ, written to `directory`
        anew. The first has the study's first class, the second its second one; `share` is held out with KEY, by
        ids that do not depend on `count`.
        """
        raise pytest.UsageError("override open")

    def spoil(self, directory: Path) -> str:
        """Make the record that `open` wrote first unreadable, and return a text of it that must never be shown."""
        raise pytest.UsageError("override spoil")

    def stopping(self, rule: str) -> StudyFile:
        study = self.study()
        return study.model_copy(update={"data": study.data.model_copy(update={"bad_record": rule})})

    def test_records_fit_the_study(self, tmp_path: Path) -> None:
        loaded = self.open(tmp_path, COUNT, 0.4).load(self.study())
        assert check_loaded(loaded, self.study(), "source") is loaded
        assert len(loaded.train) + len(loaded.test) == COUNT
        assert loaded.train.x.shape[1:] == record_shape(self.study())
        assert np.abs(loaded.train.x).max() <= 1
        assert sorted({*loaded.train.y.tolist(), *loaded.test.y.tolist()}) == [0, 1]
        assert sum(loaded.isolated.values()) == 0

    def test_a_load_can_be_repeated(self, tmp_path: Path) -> None:
        source = self.open(tmp_path, COUNT, 0.4)
        first, again = source.load(self.study()), source.load(self.study())
        assert np.array_equal(first.train.x, again.train.x)
        assert np.array_equal(first.test.y, again.test.y)

    def test_more_records_move_and_change_none(self, tmp_path: Path) -> None:
        few = self.open(tmp_path, COUNT, 0.4).load(self.study())
        more = self.open(tmp_path, 3 * COUNT, 0.4).load(self.study())
        assert rows(few.train) <= rows(more.train)
        assert rows(few.test) <= rows(more.test)
        assert len(more.test) > 0

    def test_a_single_record_and_a_missing_class(self, tmp_path: Path) -> None:
        loaded = self.open(tmp_path, 1, 0.0).load(self.study())
        assert (len(loaded.train), len(loaded.test)) == (1, 0)
        assert loaded.test.x.shape == (0, *record_shape(self.study()))

    def test_no_records(self, tmp_path: Path) -> None:
        with pytest.raises(Misconfigured) as caught:
            self.open(tmp_path, 0, 0.0).load(self.study())
        assert "\n" not in caught.value.message

    def test_a_bad_record_stops_where_the_study_says_so(self, tmp_path: Path) -> None:
        source = self.open(tmp_path, COUNT, 0.0)
        secret = self.spoil(tmp_path)
        with pytest.raises(Misconfigured) as caught:
            source.load(self.stopping("stop"))
        assert "\n" not in caught.value.message
        assert secret not in caught.value.message + caught.value.hint

    def test_a_bad_record_is_isolated_where_the_study_says_so(self, tmp_path: Path) -> None:
        source = self.open(tmp_path, COUNT, 0.0)
        before = source.load(self.stopping("drop"))
        secret = self.spoil(tmp_path)
        after = source.load(self.stopping("drop"))
        assert rows(after.train) < rows(before.train)
        assert (len(after.train), after.isolated[Isolated.BAD]) == (COUNT - 1, 1)
        assert len(after.notes) == 1
        assert secret not in after.notes[0]


def rows(records: Records) -> set[bytes]:
    """The records as a set: their contents, label first."""
    return {bytes([label]) + x.tobytes() for x, label in zip(records.x, records.y.tolist(), strict=True)}
