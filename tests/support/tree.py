"""Where the project's files are, for the house tests."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "secureproto", ROOT / "server" / "secureproto_server", ROOT / "client" / "secureproto_client")


def product_files() -> list[Path]:
    """Every Python file that ships."""
    return sorted(path for package in PACKAGES for path in package.rglob("*.py"))


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file that git knows or would take in (ignored ones left out)."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return tuple(ROOT / name for name in listing.split("\0") if name and (ROOT / name).exists())


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
