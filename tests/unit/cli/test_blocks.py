"""Tables for a terminal of any width: no number is cut, the best stands out, nothing is read as markup."""

import io
import re
import sys

import pytest

from secureproto.cli import output
from secureproto.cli.output import emit_blocks
from secureproto.simulation.results.terminal import Block, Text

TEXTS = ("0.853 ± 0.012", "0.731", "0.066", "0.628", "0.853 (3 of 4 sites)", "+0.021 [+0.003, +0.039]")
TABLE = Block(
    "dirichlet:0.3, 8 sites",
    ("method", "point", "accuracy", "worst site", "spread", "balanced", "AUC", "accuracy vs local"),
    tuple(
        (Text(name), Text("received"), *(Text(text, text == "0.731") for text in TEXTS))
        for name in ("fedavg", "protoaligned:representation=presence:normalisation=power", "[red]local[/red]")
    ),
    ("a note",),
)


@pytest.mark.parametrize("width", [46, 80, 100, 120])
def test_no_number_is_cut_at_any_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PIPE_WIDTH", width)
    emit_blocks([TABLE, TABLE])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    numbers = re.findall(r"[+]?\d\.\d{2,}", " ".join(lines[2:]))
    assert {number: numbers.count(number) for number in set(numbers)} == {
        "0.853": 12, "0.012": 6, "0.731": 6, "0.066": 6, "0.628": 6, "+0.021": 6, "+0.003": 6, "+0.039": 6
    }  # fmt: skip
    assert lines.count("") == 1
    if width < 120:
        assert "  accuracy vs local  +0.021 [+0.003, +0.039]" in lines
    else:
        assert any(re.search(r"0\.853 \(3 of 4 sites\) +\+0\.021 \[\+0\.003, \+0\.039\]", line) for line in lines)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_best_is_bold_and_a_name_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    emit_blocks([TABLE])
    shown = screen.getvalue()
    assert shown.count("\x1b[1m0.731") == 3
    assert "\x1b[1m0.066" not in shown
    assert "[red]local[/red]" in shown
