"""Where a `benefit.Question` comes from: an enrolled site's directory, or files of a hospital that has not joined.

    of_site    settings, study and newest received version of the directory, whether a client runs there or not
    of_files   a study file, an exported model (`model export`, `client model export`), and where the records lie

Invariants: nothing is asked of a server; a model is used only if its file says that it is of this study, or, where it
says nothing, if its tensors are those of the study's model; a message names files, keys and tensors, never a value.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from secureproto.data.factory import open_source
from secureproto.data.holdout import KEY_BYTES
from secureproto.data.settings import DataSettings, below
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured, NotFound
from secureproto.learning.exchange import initial_arrays, receive
from secureproto.learning.model import build
from secureproto.regular import is_there, open_regular, read_regular
from secureproto.study import file as study_files
from secureproto.study.schema import StudyFile
from secureproto.wire.layouts import EXTRACTOR, HEAD, PROTOTYPE_AGE, PROTOTYPES
from secureproto_client import settings
from secureproto_client.benefit import Question
from secureproto_client.database import Database
from secureproto_client.facts import Facts, Installed
from secureproto_client.identity import read_site_file
from secureproto_client.models import Arrays, ModelStore, model_name
from secureproto_client.opening import load_records
from secureproto_client.paths import SitePaths
from secureproto_client.pointer import Pointer
from secureproto_client.predict import study_of

# A hospital that has not joined has no hold-out key, and needs none: which rows are held out is told to nobody. A
# fixed one gives the same rows in every run.
KEY = bytes(KEY_BYTES)
SITE = "here"

_DATA: TypeAdapter[DataSettings] = TypeAdapter(DataSettings)


def of_site(paths: SitePaths, study: str | None) -> Question:
    """The question of an enrolled site.

    Raises:
        NotFound: no such study, or no version of it yet.
        Misconfigured: not a site's directory, several studies and none named, or the records cannot be used.
        IntegrityBroken: a model or study on the disk is not what was received.
    """
    said, me = settings.load(paths.settings), read_site_file(paths)
    if not is_there(paths.journal):
        raise NotFound("no study is known here yet", hint="`client run --once` fetches it")
    known = study_of(paths, study)
    latest = _latest(paths, known.name)
    store, schema = ModelStore(paths.models, known.name), known.descriptor.model
    stored = store.load(model_name(latest.version, "received"), schema)
    choice = Pointer(store).choice()
    used = None if choice is None else store.load(choice.current, schema)
    return Question(
        study=known.file,
        model=f"version {latest.version}",
        version=latest.version,
        shared=stored.shared,
        head=stored.head,
        loaded=load_records(paths, said, known),
        site=me.site,
        in_use=None if used is None else (used.note.name, used.shared, used.head),
        allowed_factories=said.study(known.name).allowed_factories,
        notes=() if latest.final else (_unfinished(latest.version, known.file),),
    )


def of_files(
    study: Path,
    model: Path,
    data: DataSettings,
    allowed_factories: tuple[str, ...] = (),
    *,
    given: Path | None = None,
) -> Question:
    """The question of a hospital that has not joined. `given`: the file that `data` were said by, for hints.

    Raises:
        Misconfigured: a file cannot be read or does not fit; the model is of another study.
        PolicyDenied: a factory that is not among `allowed_factories`.
    """
    source = study_files.read(study)
    known = study_files.load(source, name=str(study))
    arrays, said = read_model(model)
    _demand_study(model, said, known, study_files.digest(source))
    head = {name: array for name, array in arrays.items() if name.startswith(HEAD)}
    shared = {name: array for name, array in arrays.items() if not name.startswith(HEAD)}
    _demand_fit(model, known, shared, head or None, allowed_factories)
    notes = []
    if not said:
        notes.append(f"{model} does not say of which study it is: its tensors are those of {known.name}")
    if not head:
        notes.append("the file has no head: a member gets one of its own, mixed from those of sites like it")
    else:
        notes.append(
            "the file has a head, so a member exported it: if these are its records, it may have been trained on "
            "rows that are held out here, and look better than it is; a member asks with --site-dir"
        )
    with _told_of_a_file(given):
        loaded = _records(known, data, allowed_factories)
    return Question(
        study=known,
        model=str(model),
        version=_version(said, known),
        shared=shared,
        head=head or None,
        loaded=loaded,
        site=SITE,
        allowed_factories=allowed_factories,
        notes=tuple(notes),
    )


def read_model(path: Path) -> tuple[Arrays, Mapping[str, str]]:
    """Tensors and notes of an exported model. Raises Misconfigured: no such file, or a number is not finite."""
    from safetensors import SafetensorError, safe_open  # here: only this way in needs it

    try:
        open_regular(path).close()  # a pipe would be waited for
        with safe_open(path, framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            said = dict(file.metadata() or {})
    except OSError as error:
        reason = error.strerror or "no such file"
        raise Misconfigured(f"{path}: cannot be read: {reason}", hint="give an exported model") from None
    except (SafetensorError, TypeError, ValueError):
        raise Misconfigured(f"{path}: is not a safetensors file", hint="give an exported model") from None
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Misconfigured(f"{path}: tensor {name}: a number is not finite", hint="export it again")
    return arrays, said


def data_settings(path: Path, columns: Mapping[str, object]) -> DataSettings:
    """Where the records lie: a CSV file with `columns` as its other keys, or the `[data]` table of a TOML file.

    Raises:
        Misconfigured: another kind of file, no such table, or a key that does not fit.
    """
    if path.suffix == ".toml":
        if columns:
            raise Misconfigured(f"{path}: options for columns are for a CSV file", hint="say it in its [data] table")
        return below(_checked(_data_table(path), f"{path}: data"), path.resolve().parent)
    if path.suffix != ".csv":
        raise Misconfigured(f"{path}: is neither .csv nor .toml", hint="describe other kinds of data in a TOML file")
    return _checked({"kind": "csv", "path": path, **columns}, str(path))


def _data_table(path: Path) -> object:
    try:
        table = tomllib.loads(read_regular(path).decode())
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise Misconfigured(f"{path}: not TOML: {str(error)[:120]}") from None
    if "data" not in table:
        raise Misconfigured(f"{path}: no [data] table", hint="README, Settings of a site: [data] kind, path, …")
    return table["data"]


def _checked(table: object, where: str) -> DataSettings:
    try:
        return _DATA.validate_python(table)
    except ValidationError as error:
        first: Any = error.errors(include_input=False, include_url=False)[0]
        key = "".join(f"{part}: " for part in first["loc"][1:])
        told = first["msg"].removeprefix("Value error, ")
        raise Misconfigured(f"{where}: {key}{told[:1].lower()}{told[1:]}"[:300]) from None


_KEY = re.compile(r"\bdata\.(columns|delimiter|kind)\b")  # of a site's settings; others are the study's


def _records(study: StudyFile, data: DataSettings, allowed_factories: tuple[str, ...]) -> Loaded:
    return open_source(data, key=KEY, allowed_factories=allowed_factories).load(study)


@contextmanager
def _told_of_a_file(path: Path | None) -> Iterator[None]:
    """Around a load: for a CSV file a hint that names a key of `[data]` says where such a key is written."""
    try:
        yield
    except Misconfigured as error:
        if path is None or path.suffix != ".csv":
            raise
        hint = re.sub(r"\bdata\.path\b", "the path given to --data", error.hint)
        if _KEY.search(hint):
            hint += f", in a TOML file with a [data] table (kind, path, …) given to --data in place of {path.name}"
        raise Misconfigured(error.message, hint=hint) from None


def _unfinished(version: int, study: StudyFile) -> str:
    return (
        f"version {version} of at most {study.rounds.total}: the study is not over, and own data only was trained as "
        "long as all of it"
    )


def _latest(paths: SitePaths, study: str) -> Installed:
    database = Database(paths.journal)
    try:
        latest = Facts(database).latest(study)
    finally:
        database.close()
    if latest is None:
        raise NotFound(f"no version of {study} is here yet", hint="`client run --once` fetches the newest")
    if latest.version == 0:
        raise NotFound(
            f"no round of {study} has ended yet: version 0 is the first weights, which nobody has trained",
            hint="ask again when a round has ended, and best when the study is over",
        )
    return latest


def _demand_study(model: Path, said: Mapping[str, str], study: StudyFile, digest: str) -> None:
    """What the file says of itself must be of this study file; the server's export says nothing of itself."""
    if said.get("study", study.name) != study.name:
        raise Misconfigured(
            f"{model}: is a model of study {said['study'][:64]!r}, the study file is of {study.name}",
            hint="give model and file of one study",
        )
    if said.get("study_digest", digest) != digest:
        raise Misconfigured(
            f"{model}: was made with another study file of {study.name}",
            hint="give the file that the operator signed, byte for byte",
        )


def _demand_fit(
    path: Path, study: StudyFile, shared: Arrays, head: Arrays | None, allowed_factories: tuple[str, ...]
) -> None:
    """The tensors are those of the study's model, and no others."""
    for name in shared:
        if name not in (PROTOTYPES, PROTOTYPE_AGE) and not name.startswith(EXTRACTOR):
            raise Misconfigured(f"{path}: tensor {name[:64]} is none of a model", hint="give an exported model")
    if PROTOTYPES not in shared or PROTOTYPE_AGE not in shared:
        raise Misconfigured(
            f"{path}: holds no global prototypes", hint="give a model that a server published: of protoaligned"
        )
    model = build(study, allowed_factories)
    first_head = initial_arrays(model)[1]
    try:
        receive(model, shared, first_head if head is None else head)
    except Misconfigured as error:
        raise Misconfigured(f"{path}: {error.message}", hint="give model and file of one study") from None


def _version(said: Mapping[str, str], study: StudyFile) -> int:
    """The version that the file names; of one that names none, the study's last."""
    number = said.get("model", "").partition("-")[0]
    version = int(number) if number.isdecimal() and len(number) < 10 else study.rounds.total
    if version == 0:
        raise Misconfigured(
            "the model is version 0: the first weights, which nobody has trained",
            hint="give a version that a round has made",
        )
    return version
