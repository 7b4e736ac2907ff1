"""Reading the server's metrics as Prometheus would: the text format over plain HTTP on loopback."""

import re
from collections.abc import Mapping
from urllib.error import URLError
from urllib.request import urlopen

from secureproto.errors import Unavailable

LINE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def scrape(port: int) -> list[tuple[str, Mapping[str, str], float]]:
    """Every sample of the page: name, labels, value. Raises Unavailable."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
            text = reply.read().decode()
    except (URLError, TimeoutError) as error:
        raise Unavailable(f"the server's metrics port does not answer: {error}") from None
    found = (LINE.match(line) for line in text.splitlines() if not line.startswith("#"))
    return [(m["name"], dict(LABEL.findall(m["labels"] or "")), float(m["value"])) for m in found if m]


def totals(port: int, name: str, label: str) -> dict[str, int]:
    """Sum of a counter by one label's value; zeros are left out."""
    sums: dict[str, int] = {}
    for sample, labels, value in scrape(port):
        if sample == name and value:
            sums[labels[label]] = sums.get(labels[label], 0) + int(value)
    return sums
