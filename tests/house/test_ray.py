"""Ray is behind one seam: a single module imports it, and only when its engine is opened."""

import ast
import subprocess
import sys

import pytest

from support.tree import ROOT, product_files

SEAM = ROOT / "secureproto" / "simulation" / "engines" / "ray.py"


def ray_in(text: str) -> bool:
    """Whether a module's text imports Ray, by a statement or by name."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            names = [ast.literal_eval(value) for value in node.args[:1] if isinstance(value, ast.Constant)]
        if any(str(name).partition(".")[0] == "ray" for name in names):
            return True
    return False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import ray", True),
        ("import os, ray.util", True),
        ("from ray.exceptions import RayError", True),
        ("def f():\n    return importlib.import_module('ray')", True),
        ("__import__('ray')", True),
        ("from secureproto.simulation.engines.ray import RayEngine", False),
        ("from .ray import RayEngine", False),
        ("import rays", False),
    ],
)
def test_the_search_finds_every_way_of_importing(text: str, expected: bool) -> None:
    assert ray_in(text) is expected


def test_only_the_engine_of_ray_imports_ray() -> None:
    assert [path for path in product_files() if ray_in(path.read_text(encoding="utf-8"))] == [SEAM]


@pytest.mark.parametrize("module", ["secureproto.simulation.engines.ray", "secureproto.simulation.run"])
def test_ray_is_not_loaded_before_its_engine_is_opened(module: str) -> None:
    code = f"import {module}, sys; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
