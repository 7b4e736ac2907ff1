"""Settings to source: what is allowed, what a foreign source must give, relative paths."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from secureproto.data.factory import CheckedSource, open_source
from secureproto.data.settings import DataSettings, FactorySettings, below
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured, PolicyDenied
from secureproto.learning.dataset import Records
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from support.study_toml import dumps, tabular_table

STUDY = load(dumps(tabular_table()))
SETTINGS: TypeAdapter[DataSettings] = TypeAdapter(DataSettings)


def foreign(name: str, allowed: list[str]) -> None:
    open_source(FactorySettings(kind="factory", factory=name), key=bytes(32), allowed_factories=allowed)


def test_only_what_the_site_allows_is_imported() -> None:
    with pytest.raises(PolicyDenied) as caught:
        foreign("support.tiny_source:factory", ["support.other:factory"])
    assert caught.value.reasons == ("data_factory",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("support.no_such:factory", "cannot be imported here"),
        ("support.tiny_source:nothing", "has no such name"),
        ("secureproto:__version__", "is not a function"),
        ("support.tiny_source:factory", "option path is missing"),
        ("builtins:print", "gives NoneType; a factory gives a source"),
    ],
)
def test_a_factory_that_cannot_be_used(name: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        foreign(name, [name])


def test_a_foreign_source_comes_checked() -> None:
    name = "support.tiny_source:factory"
    settings = FactorySettings(kind="factory", factory=name, options={"path": "none"})
    assert isinstance(open_source(settings, key=bytes(32), allowed_factories=[name]), CheckedSource)


class Fixed:
    """A source that gives what it is told."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def load(self, study: StudyFile) -> Loaded:
        return self._loaded


def records(n: int, width: int = 12, *, value: float = 0, label: int = 0) -> Records:
    return Records(np.full((n, width), value, np.float32), np.full(n, label, np.int64))


@pytest.mark.parametrize(
    ("train", "test", "why"),
    [
        (records(2, 11), records(0), "training records of shape"),
        (records(2), records(1, 11), "hold-out records of shape"),
        (records(2, value=float("nan")), records(0), "not finite"),
        (records(2), records(1, label=2), "a label of the hold-out records"),
        (records(2, label=-1), records(1), "a label of the training records"),
        (records(0), records(3), "no record to train on"),
    ],
)
def test_a_foreign_source_is_held_to_the_contract(train: Records, test: Records, why: str) -> None:
    with pytest.raises(Misconfigured, match=f"^theirs: .*{why}"):
        CheckedSource(Fixed(Loaded(train, test)), "theirs").load(STUDY)


def test_a_foreign_source_that_keeps_it() -> None:
    loaded = Loaded(records(2), records(0))
    assert CheckedSource(Fixed(loaded), "theirs").load(STUDY) is loaded
    with pytest.raises(Misconfigured, match="gives Records; a source gives Loaded"):
        CheckedSource(Fixed(records(2)), "theirs").load(STUDY)  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros((2, 3)), np.zeros(2, np.int64)),
        (np.zeros((2, 3), np.float32), np.zeros(3, np.int64)),
        (np.zeros(2, np.float32), np.zeros(2, np.int64)),
    ],
)
def test_records_that_are_none(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], y: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> None:
    with pytest.raises(ValueError, match="records are"):
        Records(x, y)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"kind": "csv", "path": "a.csv"}, "hold_out needs id_column or split_column"),
        ({"kind": "npz", "path": "a.npz"}, "hold_out needs id or split"),
        ({"kind": "npz", "path": "a", "id": "i", "split": "s"}, "both given"),
        ({"kind": "csv", "path": "a", "id_column": "i", "delimiter": ";;"}, "delimiter"),
        ({"kind": "image_folder", "path": "a", "hold_out": 1}, "hold_out"),
        ({"kind": "torchvision", "name": "CIFAR10", "root": "a"}, "name"),
        ({"kind": "factory", "factory": "os.system"}, "factory"),
        ({"kind": "csv", "path": "a", "id_column": "i", "colour": 1}, "colour"),
        ({"kind": "excel"}, "kind"),
    ],
)
def test_settings_that_are_refused(table: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        SETTINGS.validate_python(table)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"kind": "csv", "path": "a", "hold_out": 0}, "path"),
        ({"kind": "npz", "path": "a", "hold_out": 0}, "path"),
        ({"kind": "image_folder", "path": "a"}, "path"),
        ({"kind": "torchvision", "name": "MNIST", "root": "a"}, "root"),
    ],
)
def test_relative_paths_are_below_the_settings_file(table: dict[str, object], key: str) -> None:
    base = Path("/srv/site")
    assert getattr(below(SETTINGS.validate_python(table), base), key) == base / "a"
    assert getattr(below(SETTINGS.validate_python({**table, key: "/data/a"}), base), key) == Path("/data/a")


def test_a_factory_has_no_path() -> None:
    settings = SETTINGS.validate_python({"kind": "factory", "factory": "a:b"})
    assert below(settings, Path("/srv")) is settings
