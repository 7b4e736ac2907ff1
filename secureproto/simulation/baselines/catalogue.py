"""Names of algorithms, and how a person writes one with its hyper-parameters: `fedprox:mu=0.01:learning_rate=0.05`.

Invariant: what is written is what is run, and is the label of the result; a name or key that does not exist is
refused with the nearest that does.
"""

import re
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from secureproto.errors import Misconfigured
from secureproto.simulation.baselines.ditto import Ditto
from secureproto.simulation.baselines.fedavg import FedAvg
from secureproto.simulation.baselines.fedavg_ft import FedAvgFineTuned
from secureproto.simulation.baselines.fedpac import FedPAC
from secureproto.simulation.baselines.fedper import FedPer
from secureproto.simulation.baselines.fedproto import FedProto
from secureproto.simulation.baselines.fedprox import FedProx
from secureproto.simulation.baselines.fedrep import FedRep
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.baselines.majority import Majority
from secureproto.simulation.baselines.pooled import Pooled
from secureproto.simulation.baselines.protoaligned import ProtoAligned
from secureproto.simulation.method import Method
from secureproto.study.schema import StudyFile

METHODS: dict[str, type[Any]] = {
    "majority": Majority,
    "local": Local,
    "fedavg": FedAvg,
    "fedavg-ft": FedAvgFineTuned,
    "fedprox": FedProx,
    "fedper": FedPer,
    "fedrep": FedRep,
    "fedproto": FedProto,
    "fedpac": FedPAC,
    "ditto": Ditto,
    "pooled": Pooled,
    "protoaligned": ProtoAligned,
}

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")

# the sections of the study whose keys a method may be given in place of the study's own
TRAINING, OWN = ("training",), ("training", "relation", "prototypes")
ALIGNMENT = "alignment_"


def make(text: str, study: StudyFile) -> Method:
    """The algorithm of a spec over a study.

    Raises:
        Misconfigured: no such algorithm, no such key, or a value that the key does not take.
    """
    name, _, rest = text.partition(":")
    if name not in METHODS:
        raise Misconfigured(f"no method {name!r}", hint=nearest(name, METHODS))
    kind, own = METHODS[name], {}
    sections = section_keys(name, study)
    known = {field.name: field for field in fields(kind) if field.name != "study"}
    given: set[str] = set()
    parts = rest.split(":") if ":" in text else []
    for part in sorted(parts, key=_order):
        key, equals, raw = part.partition("=")
        if key in given:
            raise Misconfigured(f"method {text!r}: {key} is given twice")
        contrary = given.intersection(_INSTEAD.get(key, ()))
        if contrary:
            raise Misconfigured(f"method {text!r}: {min(contrary)} and {key} cannot both be", hint="give one of them")
        given.add(key)
        if not equals:
            raise Misconfigured(f"method {text!r}: {part!r} is not key=value")
        if key in known:
            own[key] = _own_value(text, key, raw, known[key].default)
        elif key in sections:
            study = _with(study, sections[key], key, _value(raw), text)
        else:
            raise Misconfigured(f"method {text!r}: no key {key!r}", hint=nearest(key, [*known, *sections]))
    try:
        return cast("Method", kind(study, **own))
    except ValueError as error:
        raise Misconfigured(f"method {text!r}: {error}") from None


def _order(part: str) -> bool:
    """False for the normalisation, which puts out the study's parameter of another one and not the spec's own: it is
    set first, so that the order in which keys are written means nothing."""
    return part.partition("=")[0] != "normalisation"


def nearest(name: str, known: "dict[str, Any] | list[str]") -> str:
    """A hint: the nearest of the known names, or all of them."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}?" if close else f"one of: {', '.join(sorted(known))}"


def section_keys(name: str, study: StudyFile) -> dict[str, str]:
    """Key → section of the study, of the keys that a method takes in place of the study's own."""
    found = {key: section for section in sections_of(name) for key in type(getattr(study, section)).model_fields}
    # only one method has that term: for the others they would do nothing
    return {key: section for key, section in found.items() if name == "protoaligned" or not key.startswith(ALIGNMENT)}


def sections_of(name: str) -> tuple[str, ...]:
    """The sections of a study whose keys a method takes as its own settings."""
    return OWN if name == "protoaligned" else TRAINING


def _value(raw: str) -> int | float | str:
    if not _NUMBER.fullmatch(raw):
        return raw
    if raw.lstrip("-").isdigit() and len(raw) < 20:
        return int(raw)
    return float(raw)


def _own_value(text: str, key: str, raw: str, default: object) -> object:
    value = _value(raw)
    if isinstance(default, float) and isinstance(value, int):
        value = float(value)
    if type(value) is not type(default):
        kind = {int: "a whole number", float: "a number", str: "a word"}[type(default)]
        raise Misconfigured(f"method {text!r}: {key} is {kind}, not {raw!r}")
    return value


# a key that is given puts out those that would contradict it
_INSTEAD = {
    "local_epochs": ("local_steps",),
    "local_steps": ("local_epochs",),
    "normalisation": ("power", "temperature", "evidence_scale"),
}


def _with(study: StudyFile, section: str, key: str, value: object, text: str) -> StudyFile:
    """The study with one key of a section changed."""
    before: BaseModel = getattr(study, section)
    values = before.model_dump(exclude_none=True)
    for other in _INSTEAD.get(key, ()):
        values.pop(other, None)
    values[key] = value
    if key == "normalisation":
        values.update(_PARAMETER.get(str(value), {}))
    try:
        after = type(before).model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise Misconfigured(f"method {text!r}: {key}: {first['msg']}") from None
    return study.model_copy(update={section: after})


# normalisations that need a number get this one until the spec says another
_PARAMETER: dict[str, dict[str, float]] = {"power": {"power": 1.0}, "softmax": {"temperature": 0.1}}
