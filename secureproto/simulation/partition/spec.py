"""The schemes by name: from a text such as `dirichlet:0.3` to a scheme, and the list of all of them."""

from difflib import get_close_matches
from typing import NamedTuple

from secureproto.errors import Misconfigured
from secureproto.simulation.partition.dirichlet import Dirichlet
from secureproto.simulation.partition.feature_shift import FeatureShift
from secureproto.simulation.partition.fedpac import Fedpac
from secureproto.simulation.partition.iid import Iid
from secureproto.simulation.partition.natural import Natural
from secureproto.simulation.partition.pathological import Pathological
from secureproto.simulation.partition.quantity import Quantity
from secureproto.simulation.partition.scheme import Scheme

_ALL: tuple[type[Scheme], ...] = (Natural, Iid, Dirichlet, Pathological, Fedpac, FeatureShift, Quantity)
_BY_NAME = {scheme.name: scheme for scheme in _ALL}


class Listed(NamedTuple):
    """One scheme in a list."""

    name: str
    form: str
    summary: str


def schemes() -> list[Listed]:
    """All schemes, in the order of the documentation."""
    return [Listed(scheme.name, scheme.form(), scheme.summary) for scheme in _ALL]


def is_file(text: str) -> bool:
    """Whether the text names a saved partition and not a scheme."""
    return text.endswith(".json")


def parse(text: str) -> Scheme:
    """The scheme of a text.

    Raises:
        Misconfigured: no such scheme, or a parameter that it does not take.
    """
    name, *values = text.split(":")
    if name not in _BY_NAME:
        close = get_close_matches(name, _BY_NAME, n=1, cutoff=0.6)
        meant = f" (did you mean {close[0]}?)" if close else ""
        allowed = ", ".join(scheme.form() for scheme in _ALL)
        raise Misconfigured(
            f"partition: {name!r} is no scheme{meant}", hint=f"one of {allowed}, or a partition.json that was saved"
        )
    scheme = _BY_NAME[name]
    if len(values) != len(scheme.parameters):
        given = f"{len(values)} parameter{'' if len(values) == 1 else 's'}"
        raise Misconfigured(f"partition {name}: written {scheme.form()}, not with {given}", hint=_allowed(scheme))
    read = []
    for parameter, value in zip(scheme.parameters, values, strict=True):
        try:
            read.append(parameter.read(value))
        except ValueError:
            raise Misconfigured(
                f"partition {name}: {parameter.name} is {value!r}; allowed: {parameter.allowed}"
            ) from None
    return scheme(*read)


def _allowed(scheme: type[Scheme]) -> str:
    return "; ".join(f"{parameter.name} is {parameter.allowed}" for parameter in scheme.parameters)
