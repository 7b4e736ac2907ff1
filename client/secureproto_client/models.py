"""The models of a site: each version as received, and what was made of it here: `<version>-local`, `-own`, …

    models/<study>/<version>/{shared.tensors, head.tensors, model.json}      e.g. 30/ and 30-local/

Invariants: a version's directory appears whole or not at all and never changes afterwards; tensors are in the
protocol's own layout, whose digests stand in `model.json` and are checked at every load. What is not as received was
trained on this site's records alone and is private to it: it may tell of them.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from numpy.typing import NDArray

from secureproto.errors import IntegrityBroken, NotFound, Rejected
from secureproto.wire.layouts import head_schema, shared_schema
from secureproto.wire.messages import Message, ModelSchema
from secureproto.wire.messages.base import Count, Digest, Name, Time
from secureproto.wire.tensors import TensorSchema, encode, read_all
from secureproto_client.durable import make_directory, replace, sync_directory

Arrays = Mapping[str, NDArray[Any]]
Origin = Literal["received", "blend", "own", "midway", "longer", "local"]  # of one version in this order
RECEIVED, *MADE_HERE = get_args(Origin)
SHARED, HEAD, NOTE = "shared.tensors", "head.tensors", "model.json"
_NAME = re.compile(rf"(0|[1-9][0-9]{{0,12}})(-({'|'.join(MADE_HERE)}))?\Z")


class ModelNote(Message):
    """What a stored model is. `origin`: as received; or made here: trained on (`local`; often: `longer`), with
    a head trained here (`own`), or halfway to that (to `longer`: `midway`; to `own`: `blend`)."""

    LABEL: ClassVar[str] = "secureproto/v1/stored-model"
    study: Name
    study_digest: Digest
    schema_digest: Digest
    version: Count
    origin: Origin
    shared_digest: Digest
    head_digest: Digest
    stored: Time

    @property
    def name(self) -> str:
        """`<version>`, or `<version>-<origin>` of one that was made here."""
        return model_name(self.version, self.origin)


@dataclass(frozen=True)
class ModelLabel:
    """What is known of a model before its files are."""

    study_digest: str
    schema_digest: str
    version: int
    origin: Origin
    stored: int

    @property
    def name(self) -> str:
        return model_name(self.version, self.origin)


@dataclass(frozen=True)
class StoredModel:
    """A model loaded from the store: its note and its tensors by the names of the two layouts."""

    note: ModelNote
    shared: Arrays
    head: Arrays


def model_name(version: int, origin: Origin) -> str:
    """A model's name in the store."""
    return f"{version}" if origin == RECEIVED else f"{version}-{origin}"


def is_private(name: str) -> bool:
    """Whether the model of that name was made here, and so may tell of this site's records."""
    return "-" in name


class ModelStore:
    """The models of one study at a site."""

    def __init__(self, root: Path, study: str) -> None:
        self.directory = root / study
        self.study = study

    def has(self, name: str) -> bool:
        """Whether a model is there, whole."""
        return (self._path(name) / NOTE).exists()

    def names(self) -> list[str]:
        """Every model, by version, as received before those made here."""
        if not self.directory.is_dir():
            return []
        found = [path.name for path in self.directory.iterdir() if _NAME.match(path.name)]
        return sorted((name for name in found if self.has(name)), key=_order)

    def draft(self, name: str) -> Path:
        """An empty directory to write a model's two tensor files to, for `adopt`."""
        path = make_directory(self.directory) / f".{name}.draft"
        shutil.rmtree(path, ignore_errors=True)  # of an attempt that was cut off
        return make_directory(path)

    def adopt(self, draft: Path, label: ModelLabel) -> None:
        """Make a complete draft the model of that name; if that is there already, nothing is changed."""
        if self.has(label.name):
            shutil.rmtree(draft)
            return
        note = ModelNote(
            study=self.study,
            study_digest=label.study_digest,
            schema_digest=label.schema_digest,
            version=label.version,
            origin=label.origin,
            shared_digest=_settle(draft / SHARED),
            head_digest=_settle(draft / HEAD),
            stored=label.stored,
        )
        replace(draft / NOTE, note.canonical())
        draft.rename(self._path(label.name))
        sync_directory(self.directory)

    def add(self, label: ModelLabel, schema: ModelSchema, *, shared: Arrays, head: Arrays) -> None:
        """Store a model from arrays. Raises ValueError when they do not fit the schema."""
        draft = self.draft(label.name)
        _write(draft / SHARED, shared_schema(schema), shared)
        _write(draft / HEAD, head_schema(schema), head)
        self.adopt(draft, label)

    def note(self, name: str) -> ModelNote:
        """What a model is. Raises NotFound, IntegrityBroken."""
        try:
            return ModelNote.parse((self._path(name) / NOTE).read_bytes())
        except OSError:
            raise NotFound(f"no model {name} of {self.study} here", hint="secureproto client model list") from None
        except Rejected as error:
            raise IntegrityBroken(f"model {name} of {self.study}: {error.message}") from None

    def load(self, name: str, schema: ModelSchema) -> StoredModel:
        """A model's tensors, their digests checked.

        Raises:
            NotFound: it is not there.
            IntegrityBroken: a file is not what was stored, or does not fit the study.
        """
        note, path = self.note(name), self._path(name)
        if note.schema_digest != schema.digest():
            raise IntegrityBroken(f"model {name} does not fit the study {self.study}")
        shared = _read(path / SHARED, shared_schema(schema), note.shared_digest)
        head = _read(path / HEAD, head_schema(schema), note.head_digest)
        return StoredModel(note, shared, head)

    def _path(self, name: str) -> Path:
        if not _NAME.match(name):
            raise NotFound(f"{name[:40]!r} is not a model's name", hint="as in `client model list`: 12 or 12-local")
        return self.directory / name


def stores(root: Path) -> Iterator[ModelStore]:
    """The stores of every study that has models here, by name."""
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        if path.is_dir():
            yield ModelStore(root, path.name)


def _write(path: Path, schema: TensorSchema, arrays: Arrays) -> None:
    with path.open("xb") as file:
        file.writelines(encode(schema, arrays))


def _settle(path: Path) -> str:
    """Flush a draft's file to the disk; its digest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return file_digest(file, "sha256").hexdigest()


def _read(path: Path, schema: TensorSchema, digest: str) -> Arrays:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise IntegrityBroken(f"{path}: cannot be read: {error.strerror}") from None
    if sha256(data).hexdigest() != digest:
        raise IntegrityBroken(f"{path} is not what was stored", hint="roll back to another version, and find out why")
    try:
        return read_all(schema, data)
    except Rejected as error:
        raise IntegrityBroken(f"{path}: {error.message}") from None


def _order(name: str) -> tuple[int, int]:
    version, _, origin = name.partition("-")
    return int(version), get_args(Origin).index(origin or RECEIVED)
