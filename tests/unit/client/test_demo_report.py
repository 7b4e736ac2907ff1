"""What the demo tells its reader to type."""

import sys
from pathlib import Path

import pytest

from secureproto_client.demo.report import program


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
