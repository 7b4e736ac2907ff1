"""What may stand in a path: names, numbers and digests, each in its one spelling; anything else is no path of ours.

Invariants: a number fits every message, log entry and column that it may reach, so that no path can make a row or
an entry fail; a path has one spelling (no leading zeros), as a name and a digest have.
"""

import re

from starlette.convertors import Convertor, register_url_convertor

NUMBER = "0|[1-9][0-9]{0,11}"  # at most 12 digits: under the 2^40 of `Count`
NAME = "(?=[a-z0-9-]{1,63}(?:/|$))[a-z0-9](?:-?[a-z0-9])*"  # as `wire.messages.base.Name`
DIGEST = "[0-9a-f]{64}"
KIND = re.compile(":[a-z]+}")


class NumberConvertor(Convertor[int]):
    """A round, a version, a place in the log."""

    regex = NUMBER

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
    """A site's or a study's name."""

    regex = NAME


class DigestConvertor(TextConvertor):
    """A SHA-256 in hex."""

    regex = DIGEST


def plain(template: str) -> str:
    """A route's template as people read it, and as a metric's label: `/v1/roots/{version}`."""
    return KIND.sub("}", template)


def register() -> None:
    """Make `{x:number}`, `{x:name}` and `{x:digest}` known to the router. Doing it again changes nothing."""
    register_url_convertor("number", NumberConvertor())
    register_url_convertor("name", NameConvertor())
    register_url_convertor("digest", DigestConvertor())
