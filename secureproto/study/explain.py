"""From a failed check to one line: the dotted path of the key, what is wrong, what is allowed.

Nothing of the validation library is shown: each of its error types has its sentence here, and one that has none
(there should be none; a test tries) gets a general one. Where several keys fail, an unknown key comes first,
for a misspelt key is also a missing one.
"""

from difflib import get_close_matches
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from secureproto.study.checks import shown
from secureproto.study.schema import StudyFile

_TAGS = ("number", "category")
_FIRST = ("extra_forbidden", "missing")  # an unknown key before a missing one, both before the rest

_TYPES = {
    "string_type": "a text",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than": ("gt", "over"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "under"),
    "less_than_equal": ("le", "at most"),
}


def explain(error: ValidationError, table: dict[str, object]) -> str:
    """One line for the first of the errors; `table` is the file as read, to name the entries of lists."""
    errors = sorted(
        error.errors(include_url=False),
        key=lambda e: _FIRST.index(e["type"]) if e["type"] in _FIRST else len(_FIRST),
    )
    key, what = _sentence(errors[0], table)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{key}: {what}{more}"


def _sentence(error: ErrorDetails, table: dict[str, object]) -> tuple[str, str]:
    path = [part for part in error["loc"] if part != "[key]"]
    if path[:2] == ["data", "features"] and len(path) > 3 and path[3] in _TAGS:
        del path[3]  # the tag of the union: not a key of the file
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "study":
        path += [part for part in str(context["key"]).split(".") if part]
        return _dotted(path, table), str(context["what"])
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = value.get("kind") if isinstance(value, dict) else None
        given = "missing" if tag is None else f"{shown(tag)} is not a kind of feature"
        return _dotted([*path, "kind"], table), f"{given}; allowed: {' or '.join(_TAGS)}"
    return _dotted(path, table), _what(kind, context, value, path, table)


def _what(kind: str, context: dict[str, Any], value: object, path: list[int | str], table: object) -> str:
    if kind == "missing":
        return "missing; this key must be given"
    if kind == "extra_forbidden":
        return _unknown(str(path[-1]), _allowed_keys(path[:-1], table))
    if kind == "literal_error":
        return f"{shown(value)} is not allowed; allowed: {context['expected']}"
    if kind in _TYPES:
        return f"{shown(value)} is not {_TYPES[kind]}; allowed: {_TYPES[kind]}"
    if kind in _BOUNDS:
        limit, word = _BOUNDS[kind]
        return f"{shown(value)} is outside the bounds; allowed: {word} {context[limit]}"
    if kind in ("too_short", "too_long"):
        word, limit = ("at least", "min_length") if kind == "too_short" else ("at most", "max_length")
        return f"{context['actual_length']} entries; allowed: {word} {context[limit]}"
    return f"{shown(value)} is not allowed here; see SPEC.md for what is"


def _unknown(key: str, allowed: list[str]) -> str:
    close = get_close_matches(key, allowed, n=1, cutoff=0.65)
    meant = f" (did you mean {close[0]}?)" if close else ""
    return f"unknown key{meant}; allowed: {', '.join(allowed)}"


def _allowed_keys(path: list[int | str], table: object) -> list[str]:
    """The keys of the section at a path."""
    models: list[type[BaseModel]] = [StudyFile]
    for part in path:
        table = _child(table, part)
        if isinstance(part, str):
            models = [found for model in models for found in _models(model.model_fields[part].annotation)]
    tag = table.get("kind") if isinstance(table, dict) else None
    if len(models) > 1:  # the features: the one whose kind this entry has
        models = [model for model in models if tag in get_args(model.model_fields["kind"].annotation)]
    return [key for model in models for key in model.model_fields]


def _models(annotation: object) -> list[type[BaseModel]]:
    """The models inside an annotation such as `tuple[Annotated[A | B, ...], ...]` or `A | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, tuple) or hasattr(annotation, "__metadata__"):
        return [model for part in get_args(annotation) for model in _models(part)]
    return []


def _dotted(path: list[int | str], table: object) -> str:
    """data.features[2] (chol).min"""
    out = ""
    for part in path:
        table = _child(table, part)
        if isinstance(part, int):
            out += f"[{part + 1}]"
            name = table.get("name") if isinstance(table, dict) else None
            out += f" ({_plain(name)})" if isinstance(name, str) else ""
        else:
            out += ("." if out else "") + _plain(part)
    return out or "the file"


def _child(node: object, part: int | str) -> object:
    if isinstance(node, dict):
        return node.get(part)
    if isinstance(node, list) and isinstance(part, int) and part < len(node):
        return node[part]
    return None


def _plain(key: str) -> str:
    """A key as it stands in a path: quoted where it would not be one plain word."""
    return key if key.isidentifier() and len(key) <= 60 else shown(key)
