"""The store of models and the choice among them: whole or not at all, and never silently changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secureproto.errors import Conflict, IntegrityBroken, NotFound
from secureproto.wire.messages import ModelSchema, TensorEntry
from secureproto_client.models import HEAD, SHARED, ModelLabel, ModelStore, Origin
from secureproto_client.pointer import Pointer

SCHEMA = ModelSchema(
    classes=2,
    embedding_width=3,
    extractor=(TensorEntry(name="w", dtype="F32", shape=(3, 4)),),
    head=(TensorEntry(name="w", dtype="F32", shape=(2, 3)),),
    reports_loss=False,
)


def add(store: ModelStore, version: int, origin: Origin = "received") -> None:
    shared: dict[str, Any] = {
        "prototypes": np.zeros((2, 3)),
        "prototype_age": np.zeros(2, np.int64),
        "extractor.w": np.full((3, 4), version, np.float32),
    }
    label = ModelLabel("a" * 64, SCHEMA.digest(), version, origin, 1)
    store.add(label, SCHEMA, shared=shared, head={"head.w": np.full((2, 3), version, np.float32)})


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    store = ModelStore(tmp_path, "heart")
    for version in (0, 2, 10):
        add(store, version)
    add(store, 2, "local")
    return store


def test_models_come_back_as_they_were_stored(store: ModelStore) -> None:
    assert store.names() == ["0", "2", "2-local", "10"]
    model = store.load("10", SCHEMA)
    assert (model.shared["extractor.w"] == 10).all()
    assert model.note.name == "10"
    assert store.note("2-local").origin == "local"


@pytest.mark.parametrize("file", [SHARED, HEAD])
def test_a_changed_file_is_found(store: ModelStore, file: str) -> None:
    path = store.directory / "2" / file
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(IntegrityBroken, match="is not what was stored"):
        store.load("2", SCHEMA)
    path.unlink()
    with pytest.raises(IntegrityBroken, match="cannot be read"):
        store.load("2", SCHEMA)


def test_another_studys_model_does_not_load(store: ModelStore) -> None:
    with pytest.raises(IntegrityBroken, match="does not fit the study"):
        store.load("2", SCHEMA.model_copy(update={"classes": 3}))


def test_a_draft_that_was_cut_off_is_no_model(store: ModelStore) -> None:
    (store.draft("11") / SHARED).write_bytes(b"half")
    assert not store.has("11")
    assert "11" not in store.names()
    add(store, 11)
    assert store.names()[-1] == "11"


def test_a_version_never_changes(store: ModelStore) -> None:
    before = (store.directory / "2" / SHARED).read_bytes()
    add(store, 2)
    assert (store.directory / "2" / SHARED).read_bytes() == before


@pytest.mark.parametrize("name", ["3", "../2", "02", "2-loc", ""])
def test_what_is_not_there(store: ModelStore, name: str) -> None:
    with pytest.raises(NotFound):
        store.load(name, SCHEMA)


def test_new_versions_take_over_until_a_person_chooses(store: ModelStore) -> None:
    pointer = Pointer(store)
    with pytest.raises(NotFound, match="no model of heart yet"):
        pointer.current()
    for name in ("0", "2", "2-local"):
        pointer.offer(name)
    assert pointer.current() == "2-local"
    pointer.use("2")
    pointer.offer("10")
    assert pointer.current() == "2"
    assert pointer.follow() == "10"
    pointer.offer("2-local")
    assert pointer.current() == "2-local"
    with pytest.raises(NotFound):
        pointer.use("77")


def test_going_back(store: ModelStore) -> None:
    pointer = Pointer(store)
    pointer.offer("0")
    with pytest.raises(Conflict, match="no earlier model"):
        pointer.roll_back()
    pointer.offer("2")
    pointer.offer("10")
    assert [pointer.roll_back(), pointer.roll_back()] == ["2", "0"]
    pointer.offer("10")
    assert pointer.current() == "0"


def test_a_damaged_choice_is_mended_by_choosing(store: ModelStore) -> None:
    pointer = Pointer(store)
    pointer.offer("0")
    (store.directory / "current.json").write_bytes(b"{}")
    with pytest.raises(IntegrityBroken, match="damaged"):
        pointer.current()
    pointer.use("2")
    assert pointer.current() == "2"
