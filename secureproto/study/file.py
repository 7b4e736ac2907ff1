"""Reading a study file: bytes in, `StudyFile` out, or one line that names the file, the key and what is allowed.

The digest is over the bytes of the file as they are, never over a re-writing of it: what the operator signed is
what the site's engineer reads.
"""

import tomllib
from pathlib import Path

from pydantic import ValidationError

from secureproto.errors import Misconfigured
from secureproto.regular import open_regular
from secureproto.study.explain import explain
from secureproto.study.schema import StudyFile
from secureproto.wire.canonical import labelled_digest
from secureproto.wire.limits import LIMITS

LABEL = "secureproto/v1/study-file"


def load(source: Path | bytes, *, name: str = "study file") -> StudyFile:
    """The study of a file, or of bytes that came over the wire (`name` then stands for the file in errors).

    Raises:
        Misconfigured: unreadable, not UTF-8, not TOML (with line and column), or a key that fails a check.
    """
    if isinstance(source, Path):
        return parse(read(source), name=str(source))
    return parse(source, name=name)


def read(path: Path) -> bytes:
    """The bytes of a study file, as its digest and signature need them.

    Raises:
        Misconfigured: it cannot be read, or is over LIMITS.study_file.
    """
    try:
        with open_regular(path) as file:
            data = file.read(LIMITS.study_file + 1)
    except OSError as error:
        raise Misconfigured(
            f"{path}: cannot be read: {error.strerror or type(error).__name__}",
            hint="give the path of a study file (TOML)",
        ) from None
    if len(data) > LIMITS.study_file:
        raise Misconfigured(f"{path}: larger than {LIMITS.study_file} bytes; a study file never is")
    return data


def parse(data: bytes, *, name: str) -> StudyFile:
    """The study of bytes. Raises Misconfigured as `load` does."""
    table = _toml(data, name)
    try:
        return StudyFile.model_validate(table)
    except ValidationError as error:
        raise Misconfigured(f"{name}: {explain(error, table)}", hint="keys: secureproto/study/SPEC.md") from None


def digest(data: bytes) -> str:
    """Hex SHA-256 of a study file's bytes, under its own label."""
    return labelled_digest(LABEL, data)


def _toml(data: bytes, name: str) -> dict[str, object]:
    if len(data) > LIMITS.study_file:
        raise Misconfigured(f"{name}: larger than {LIMITS.study_file} bytes; a study file never is")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _position(data[: error.start].decode("utf-8"))
        raise Misconfigured(
            f"{name}: line {line}, column {column}: not UTF-8", hint="save the file as UTF-8"
        ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{name}: {_syntax(str(error), text)}", hint="the file must be TOML 1.0") from None
    except (ValueError, RecursionError):  # an integer of thousands of digits; brackets nested without end
        raise Misconfigured(f"{name}: a number too long or a list nested too deeply for TOML") from None


def _syntax(message: str, text: str) -> str:
    """tomllib's message with its position first: "line 3, column 7: invalid value"."""
    what, _, where = message.rpartition(" (at ")
    if not what:
        what, where = message, ""
    if not where.startswith("line"):
        line, column = _position(text)
        where = f"line {line}, column {column}"
    return f"{where.rstrip(')')}: {what[:1].lower()}{what[1:]}"


def _position(text: str) -> tuple[int, int]:
    return text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
