"""The checks that the sections share: names, single lines, durations, and how a failed one names its key.

A check raises `refuse(key, what)`: `key` is relative to the section (`local_steps`, `label.values`), and the
translation in `secureproto.study.file` joins it to the section's own path. Texts say what is allowed.
"""

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

MODEL_NAMES = ("mlp", "cnn", "resnet18")
MAX_TEXT = 200  # characters of one text; it is printed on one line
MAX_SECONDS = 30 * 86_400  # a round that waits for a month is a mistake in the unit

_NAME = re.compile(r"[a-z0-9](-?[a-z0-9])*")
_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_DURATION = re.compile(r"([0-9]{1,9})(s|m|h|d)")
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Section(BaseModel):
    """A table of the study file: frozen, strict, no unknown keys."""

    # a field that is a tuple is marked strict=False, for lists of TOML become tuples; its entries stay strict
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def refuse(key: str, what: str) -> PydanticCustomError:
    """The error of a check; `key` is relative to the section that raises it, empty for the value itself."""
    return PydanticCustomError("study", "{what}", {"key": key, "what": what})


def refuse_duplicates(key: str, values: Iterable[str]) -> None:
    """Raise for the first text that stands twice."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise refuse(key, f"{value!r} stands there twice; each must be different")
        seen.add(value)


def is_factory(name: str) -> bool:
    """Whether a name has the form `package.module:factory`."""
    return _FACTORY.fullmatch(name) is not None


def plain_name(value: str) -> str:
    """Lower-case letters, digits and single dashes between them, up to 63: also a file name and a URI part."""
    if len(value) > 63 or not _NAME.fullmatch(value):
        raise refuse("", f"{shown(value)} is no name; allowed: a-z, 0-9 and single dashes between, up to 63")
    return value


def one_line(value: str) -> str:
    """A printable text, perhaps empty."""
    if len(value) > MAX_TEXT or not value.isprintable():
        raise refuse("", f"not a printable line; allowed: up to {MAX_TEXT} printable characters")
    return value


def text(value: str) -> str:
    """A printable text that is not empty and has no blank at its ends (nobody sees those in a table)."""
    if not value or value != value.strip():
        raise refuse("", "empty, or with a blank at an end; allowed: a text without")
    return one_line(value)


def parse_duration(value: object) -> int:
    """Seconds of a duration such as "90s", "10m", "2h", "1d"."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refuse("", f'{shown(value)} is no duration; allowed: a text such as "90s", "10m", "2h", "1d"')
    seconds = int(match[1]) * _UNIT[match[2]]
    if seconds > MAX_SECONDS:
        raise refuse("", f"{shown(value)} is too long; allowed: up to {MAX_SECONDS // 86_400}d")
    return seconds


def plain_options(value: dict[str, object]) -> dict[str, object]:
    """Options of a factory: texts, numbers, booleans and lists of them, so that any tool can show them."""
    for key, item in value.items():
        for entry in item if isinstance(item, list) else [item]:
            if not isinstance(entry, str | int | float | bool):
                raise refuse(key, "no option; allowed: a text, a number, a boolean, or a list of them")
    return value


def shown(value: object) -> str:
    """A value of the study file as it is quoted in an error: one line, not long."""
    line = repr(value)
    return line if len(line) <= 60 else line[:57] + "..."
