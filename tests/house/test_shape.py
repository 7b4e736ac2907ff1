"""The house's shape: where files lie, how large they are, what they are called, what may not stand in them."""

import ast
import re
from pathlib import Path

import pytest

from support.tree import ROOT, functions, product_files, tracked_files

TOP = {
    "pyproject.toml", "README.md", "secureproto", "server", "client", "policies", "tests", "ops",
    "LICENSE", "NOTICE", "CHANGELOG.md", "SECURITY.md",
}  # fmt: skip
MAX_FILE_LINES = 400
MAX_BODY_LINES = 50
MAX_PARAMETERS = 6
BAD_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "manager", "managers"}


def test_the_top_level_holds_what_the_architecture_names() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in tracked_files()}
    assert {name for name in found if not name.startswith(".")} <= TOP


@pytest.mark.parametrize("path", product_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    for node in functions(path):
        body = [statement for statement in node.body if not _is_docstring(statement)]
        length = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        assert length <= MAX_BODY_LINES, f"{path}:{node.lineno} {node.name} has {length} lines"
        count = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
        own = count - (1 if node.args.args[:1] and node.args.args[0].arg in {"self", "cls"} else 0)
        command = any("option" in _source(item) or "argument" in _source(item) for item in node.decorator_list)
        assert own <= MAX_PARAMETERS or command, f"{path}:{node.lineno} {node.name} takes {own} parameters"


def test_no_room_is_a_drawer_for_everything() -> None:
    assert not [path for path in product_files() if path.stem in BAD_NAMES or path.parent.name in BAD_NAMES]


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in product_files()
        if path.read_text(encoding="utf-8").strip()
        and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent


def test_nothing_is_left_for_later_in_the_text() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError")
    assert not [str(path) for path in product_files() if pattern.search(path.read_text(encoding="utf-8"))]


def test_every_package_ships_its_types() -> None:
    assert (ROOT / "secureproto" / "py.typed").exists()
    assert (ROOT / "server" / "secureproto_server" / "py.typed").exists()
    assert (ROOT / "client" / "secureproto_client" / "py.typed").exists()


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _source(node: ast.AST) -> str:
    return ast.unparse(node)
