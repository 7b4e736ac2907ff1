"""The hand that all plots are drawn with: colours, shapes, type, and a figure as inline SVG that names itself.

Invariants: no state of matplotlib is changed beyond a `plot` (no pyplot, no current figure); equal figures give equal
bytes; the SVG refers to nothing outside itself, its ids are unique on the page, and its text is text and not
outlines; a label is shown as it is written, never read as markup or as a formula.
Colours: Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is too faint on white.
"""

import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
INK, GREY, FAINT = "#1a1a1a", "#6b6b6b", "#c9c9c9"
WIDTH = 10.0  # inches; the page scales it
MAJORITY = "majority"  # the method that no plot shows where there is another: it would set the scale of all

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
_LINES: tuple["Line", ...] = ("solid", (0, (5, 2)), (0, (1.2, 1.2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "secureproto",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}
_LINE_OF_LABEL = re.compile(r"(?<=[:/])")


Line = str | tuple[int, tuple[float, ...]]  # solid, or (offset, lengths on and off)


@dataclass(frozen=True)
class Look:
    """How a method is drawn wherever it is drawn: colour, line and marker together tell up to 18 methods apart."""

    colour: str
    line: Line
    marker: str


@dataclass(frozen=True)
class Plot:
    """A figure of the page. `title` heads it, `alternative` says in words what it shows, `reading` how to read it."""

    key: str
    title: str
    alternative: str
    reading: str
    svg: str


def looks(labels: Sequence[str], reference: str | None) -> dict[str, Look]:
    """A look for each method; the reference is black and dotted."""
    found: dict[str, Look] = {}
    for label in labels:
        if label == reference:
            found[label] = Look(INK, (0, (1.2, 1.2)), "*")
            continue
        place = len(found) - (reference in found)
        line = _LINES[place // len(_COLOURS) % len(_LINES)]
        found[label] = Look(_COLOURS[place % len(_COLOURS)], line, _MARKERS[place % len(_MARKERS)])
    return found


def plot(key: str, draw: Callable[[], Figure], *, title: str, alternative: str, reading: str) -> Plot:
    """The figure that `draw` makes, as a plot. `key`: letters and hyphens, unique on the page."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # the font of the page, not of the drawing, has to have the letters of a label
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        target = StringIO()
        figure = draw()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Plot(key, title, alternative, reading, _inline(target.getvalue(), key, title, alternative))


def figure(height: float, *, square_panels: bool = False) -> Figure:
    """An empty figure of the page's width and a height in inches, whose parts make room for each other."""
    return Figure(figsize=(WIDTH, height), layout="compressed" if square_panels else "constrained")


def wrapped(label: str, width: int = 26) -> str:
    """A label on several lines of about `width` letters, broken after a colon or slash where there is one."""
    lines: list[str] = []
    for part in _LINE_OF_LABEL.split(label):
        if lines and len(lines[-1]) + len(part) <= width:
            lines[-1] += part
        else:
            lines += textwrap.wrap(part, width, break_on_hyphens=False) or [part]
    return "\n".join(lines)


def in_legend(name: str) -> str:
    """A name as the label of a curve: matplotlib leaves out of a legend what begins with an underscore."""
    return f"\u200b{name}" if name.startswith("_") else name


def shortened(name: str, letters: int) -> str:
    """A name in one line of at most so many letters; what is cut is its middle."""
    if len(name) <= letters:
        return name
    tail = (letters - 1) // 2
    return f"{name[: letters - 1 - tail]}…{name[len(name) - tail :]}"


def score_axis(axes: Axes, name: str) -> None:
    """Scores along the x axis, which ends where they do: at 0 and at 1."""
    low, high = axes.get_xlim()
    axes.set_xlim(max(low, 0.0), min(high, 1.0))
    axes.set_xlabel(name)


def whole_rounds(axes: Axes) -> None:
    """Ticks of rounds at whole numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("round")


def _inline(svg: str, key: str, title: str, alternative: str) -> str:
    """The SVG as it stands inside a page: no prologue, no metadata, its own ids, a title and a description."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]+>", lambda tag: _renamed(tag.group(), key), body)
    box = re.search(r'viewBox="([^"]*)"', body)
    if box is None:
        raise ValueError("an SVG without a view box")
    inside = body[body.index(">") + 1 :]
    return (
        f'<svg viewBox="{box.group(1)}" role="img" aria-labelledby="{key}-title {key}-alternative">\n'
        f'<title id="{key}-title">{escape(title)}</title>\n'
        f'<desc id="{key}-alternative">{escape(alternative)}</desc>{inside.strip()}'
    )


def _renamed(tag: str, key: str) -> str:
    """A tag with the ids that it has or refers to made the figure's own. Text between tags is never looked at."""
    tag = re.sub(r'(\s)id="', rf'\1id="{key}-', tag)
    tag = tag.replace('xlink:href="#', f'href="#{key}-').replace("xlink:href=", "href=")
    return tag.replace("url(#", f"url(#{key}-")
