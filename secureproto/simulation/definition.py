"""`experiment.json`: what is compared, with a digest of it, by which every run knows that it belongs to it.

The digest is SHA-256 over the canonical bytes of all other keys (`wire.canonical`; the one float as a text). It
stands in the file itself, and in each run that was begun under it: a key that is changed by hand is found by the
first, one that is changed with the digest by the second.

Invariant: a description is what it was when the experiment began, or an error.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from secureproto.errors import IntegrityBroken, NotFound
from secureproto.regular import read_regular
from secureproto.simulation.disk import RESTORE, meddled_or_unavailable
from secureproto.wire import canonical

NAME = "experiment.json"
LABEL = "secureproto/v1/experiment"
PARTITION = "another division of the records"  # told where only the digests differ
SHORT = 40  # characters of a value that is said in a message


class Definition(BaseModel):
    """What makes two experiments the same. `choice`: how sites choose what they use, `no` where they do not.
    `redrawn_ratio`: n_test/n_train where each seed has its own split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    study: str
    study_digest: str
    data: tuple[str, ...]
    pool_digest: str
    partition: str
    partition_digest: str
    split: str
    rounds: int
    evaluate_every: int
    choice: str
    redrawn_ratio: Annotated[float, Field(gt=0)] | None = None

    def digest(self) -> str:
        """Hex SHA-256 over all of it."""
        ratio = None if self.redrawn_ratio is None else repr(self.redrawn_ratio)
        return canonical.labelled_digest(LABEL, canonical.encode({**_content(self), "redrawn_ratio": ratio}))


class Written(Definition):
    """A definition as its file has it. `digest_of_all`: its digest."""

    digest_of_all: str = Field(alias="digest")


def encode(definition: Definition) -> bytes:
    """The bytes of a file."""
    written = Written.model_validate({**_content(definition), "digest": definition.digest()})
    return written.model_dump_json(indent=1, by_alias=True).encode()


def read(directory: Path) -> Definition:
    """The definition of the experiment in a directory.

    Raises:
        NotFound: there is none. IntegrityBroken: it was changed, is damaged, or is of another version of the program.
        Unavailable: it cannot be read now.
    """
    path = directory / NAME
    try:
        found = Written.model_validate_json(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{directory}: holds no experiment", hint="make one with simulate run --out") from None
    except OSError as error:
        raise meddled_or_unavailable(path, error) from None
    except ValidationError:
        raise IntegrityBroken(
            f"{path}: is no description of an experiment that this version can read: damaged, or of another version",
            hint="read it with the version that wrote it, or run again elsewhere",
        ) from None
    if found.digest_of_all != found.digest():
        raise IntegrityBroken(f"{path}: was changed after the experiment was begun", hint=RESTORE)
    return Definition.model_validate(_content(found))


def differing(there: Definition, asked: Definition) -> list[str]:
    """In what two differ, a phrase each: what a person chose, with both values where they are short; only if there
    is nothing of that, the digests. Where the records are the same, it means nothing how their files are called."""
    keys = [key for key in Definition.model_fields if getattr(there, key) != getattr(asked, key)]
    if "pool_digest" not in keys:
        keys = [key for key in keys if key != "data"]
    chosen = [key for key in keys if not key.endswith("digest")]
    return [_both(key, getattr(there, key), getattr(asked, key)) for key in chosen or keys]


def _both(key: str, there: object, asked: object) -> str:
    first, second = _short(there), _short(asked)
    if key.endswith("digest") or first is None or second is None:
        return PARTITION if key == "partition_digest" else f"another {key}"
    word = f"another {key}:" if isinstance(asked, str) else key
    return f"{word} {first} there, {second} asked for"


def _short(value: object) -> str | None:
    """A value as it can stand in a line; None where it cannot."""
    match value:
        case None:
            text = "none"
        case bool():
            text = "yes" if value else "no"
        case float():
            text = f"{value:g}"
        case tuple():
            text = " + ".join(map(str, value))
        case _:
            text = str(value)
    return text if text.isprintable() and len(text) <= SHORT else None


def _content(definition: Definition) -> dict[str, object]:
    return definition.model_dump(mode="json", include=set(Definition.model_fields))
