"""What may stand in a path: names, numbers and digests, each in its one spelling; anything else is no path of ours.

Invariants: a number fits every message, log entry and column that it may reach, so that no path can make a row or
an entry fail; a path has one spelling (no leading zeros), as a name and a digest have.
"""

from starlette.convertors import Convertor, register_url_convertor


class NumberConvertor(Convertor[int]):
    """A round, a version, a place in the log: at most 12 digits, under the 2^40 of `Count`."""

    regex = "0|[1-9][0-9]{0,11}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


class TextConvertor(Convertor[str]):
    """Text of a form that a subclass fixes."""

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class NameConvertor(TextConvertor):
    """A site's or a study's name, as in `wire.messages.base.Name`."""

    regex = "(?=[a-z0-9-]{1,63}(?:/|$))[a-z0-9](?:-?[a-z0-9])*"


class DigestConvertor(TextConvertor):
    """A SHA-256 in hex."""

    regex = "[0-9a-f]{64}"


def register() -> None:
    """Make `{x:number}`, `{x:name}` and `{x:digest}` known to the router. Doing it again changes nothing."""
    register_url_convertor("number", NumberConvertor())
    register_url_convertor("name", NameConvertor())
    register_url_convertor("digest", DigestConvertor())
