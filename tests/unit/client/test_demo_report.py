"""What the demo tells its reader to type."""

import sys
from pathlib import Path

import pytest
from rich.console import Console

from secureproto_client.demo.comparison import FEDAVG, MEASURES, METHODS, Comparison
from secureproto_client.demo.report import WIDTH, folded, program, table


def test_the_program_is_named_so_that_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == "secureproto"  # there is no script beside this interpreter
    script = tmp_path / "secureproto"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert program() == str(script)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "secureproto"


def test_the_table_and_the_sentences_fit_a_terminal_of_80() -> None:
    scores = {"switzerland": {method: dict.fromkeys(MEASURES, 0.5) for method in METHODS}}
    shown = table(Comparison(scores, {"switzerland": 1000}))
    console = Console(width=200)
    assert console.measure(shown).maximum <= WIDTH == 80
    lines = folded("  " + "a body with one bit changed " * 9).splitlines()
    assert len(lines) > 1
    assert all(len(line) <= WIDTH for line in lines)
    assert [line[:4].isspace() for line in lines] == [False, *[True] * (len(lines) - 1)]


@pytest.mark.parametrize("measure", MEASURES)
def test_the_sentence_says_where_another_method_is_ahead(measure: str) -> None:
    scores = {method: dict.fromkeys(MEASURES, 0.5) for method in METHODS}
    assert "FedAvg is ahead" not in Comparison({"a": scores}, {"a": 10}).verdict()
    scores[FEDAVG][measure] = 0.75
    sentence = Comparison({"a": scores}, {"a": 10}).verdict()
    assert f"FedAvg is ahead in {measure.replace('_', ' ')} (0.750); one run" in sentence
