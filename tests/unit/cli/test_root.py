"""Errors become one line, a hint and an exit code; never a traceback."""

import subprocess
import sys

import click
import pytest

from secureproto import errors
from secureproto.cli import root
from secureproto.cli.output import emit
from secureproto.wire.reasons import Reason

FAMILIES = [
    (errors.SecureProtoError("m"), 1),
    (errors.Misconfigured("m"), 2),
    (errors.Unavailable("m"), 3),
    (errors.Rejected(Reason.CLOSED, "m"), 4),
    (errors.PolicyDenied("m"), 5),
    (errors.BudgetExhausted("m"), 5),
    (errors.IntegrityBroken("m"), 6),
    (errors.Conflict("m"), 7),
    (errors.NotFound("m"), 7),
    (errors.Partial("m"), 8),
    (errors.ApprovalNeeded("m"), 9),
    (click.UsageError("m"), 2),
    (KeyboardInterrupt(), 130),
    (PermissionError(13, "Permission denied", "/x"), 1),
    (RuntimeError("secret 42"), 1),
]


@pytest.mark.parametrize(("error", "code"), FAMILIES, ids=lambda value: getattr(type(value), "__name__", ""))
def test_every_family_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def boom() -> None:
        raise error

    monkeypatch.setattr(root, "build", lambda: boom)
    assert root.run([]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.lstrip().startswith("error: ")  # after ^C the cursor stands in the middle of a line
    assert "Traceback" not in err
    assert "secret 42" not in err  # an unexpected error may hold anything: only its place is told


def test_a_hint_is_a_second_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def boom() -> None:
        raise errors.Misconfigured("what", hint="do")

    monkeypatch.setattr(root, "build", lambda: boom)
    root.run([])
    assert capsys.readouterr().err == "error: what\nhint: do\n"


def test_an_exit_code_of_a_command_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @click.pass_context
    def six(ctx: click.Context) -> None:
        ctx.exit(6)

    monkeypatch.setattr(root, "build", lambda: six)
    assert root.run([]) == 6


def test_an_unknown_verb_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.run(["round", "nonsense"]) == 2
    assert "hint: secureproto round --help" in capsys.readouterr().err


def test_rows_are_printed_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, object]] = [{"site": "a", "accuracy": 0.5}, {"site": "b", "accuracy": None}]
    emit(rows, "json")
    assert '"accuracy": 0.5' in capsys.readouterr().out
    emit(rows, "jsonl")
    assert capsys.readouterr().out.count("\n") == 2
    emit(rows, "table")
    table = capsys.readouterr().out
    assert "0.500" in table
    assert "-" in table
    emit([{"digest": "d" * 64, "state": "open", "study": "heart", "version": 2}], "table")
    assert capsys.readouterr().out.split()[:4] == ["study", "version", "digest", "state"]
    emit([{"key[s]": "keys of [training], [bold]not markup[/bold]"}], "table")
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["key[s]", "keys of [training], [bold]not markup[/bold]"]
    emit({"a": [1, 2]}, "table")
    assert capsys.readouterr().out == "a  1, 2\n"


# verbs that a lean installation has but cannot run, what is taken away, and what brings it
LEAN = [
    (["simulate", "list"], "clarabel", "simulation"),
    (["simulate", "compare", "."], "jinja2", "simulation"),
    (["study", "list"], "httpx", "server"),
    (["server", "run", "."], "sqlalchemy", "server"),
    (["client", "predict", ".", "--input", "."], "torch", "client"),
]


@pytest.mark.parametrize(("arguments", "module", "extra"), LEAN, ids=lambda value: str(value))
def test_a_package_that_is_not_installed_is_told_with_what_brings_it(
    arguments: list[str], module: str, extra: str
) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from secureproto.cli.root import _extra_hint, run\n"
        f"import importlib\n"
        f"try: importlib.import_module({module!r})\n"
        f"except ModuleNotFoundError as error: print(_extra_hint(error.name))\n"
        f"sys.exit(run({arguments!r}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"[{extra}]" in found.stdout
    assert "unexpected" not in found.stderr
    assert "Traceback" not in found.stderr
    if arguments[0] == "simulate":
        assert found.returncode == 2
        assert found.stderr.splitlines() == [
            f"error: {module} is not installed, and this command needs it",
            f"hint: {found.stdout.strip()}",
        ]


def test_a_module_of_ours_that_is_missing_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def boom() -> None:
        raise ModuleNotFoundError("no", name="secureproto.nowhere")

    monkeypatch.setattr(root, "build", lambda: boom)
    assert root.run([]) == 1
    assert "unexpected ModuleNotFoundError" in capsys.readouterr().err
