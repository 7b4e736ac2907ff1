"""Pages of the report for its tests, and what a page is made of."""

from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser

from secureproto.simulation.history import History
from secureproto.simulation.report import OnPartition, Report, render
from secureproto.simulation.results import Part, summarise
from support.histories import drawn

PARTITION = '<svg width="432pt" xmlns="http://www.w3.org/2000/svg"><script>alert(2)</script></svg>'
EMPTY = {"meta", "link", "br", "wbr", "img", "hr", "input", "path", "use", "rect"}


class Page(HTMLParser):
    """What a page is made of: tags with their attributes, texts by tag, and whether tags close as they open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.broken: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in EMPTY:
            return
        if not self.open or self.open.pop() != tag:
            self.broken.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def on_partition(name: str, histories: Sequence[History], **more: object) -> OnPartition:
    summary = summarise(histories, **more)  # type: ignore[arg-type]
    return OnPartition(
        Part(name, f"{name} with options", "9b2c", "data", summary, tuple(histories)),
        {"study": "heart-disease", "partition": "natural, 9b2c"},
        {item.method: {"learning_rate": 0.05} for item in histories},
        PARTITION,
    )


def report(histories: Sequence[History], **more: object) -> Report:
    return Report("Hearts", [on_partition("natural", histories, **more)], {"page made by": "1"}, ("A note.",))


@cache
def whole() -> str:
    """Four hospitals, six methods, three seeds, one failed run."""
    methods = ("local", "fedavg", "fedper", "fedproto", "fedpac", "protoaligned:representation=presence")
    histories = drawn(methods=methods, rounds=6, every=2, failing={"fedpac": 1})
    return render(report(histories, target=0.7, redrawn=0.43))
