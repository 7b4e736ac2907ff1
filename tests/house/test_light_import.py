"""What a command loads: the root help neither torch nor a database nor a web server; the server never torch."""

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "torchvision",
    "sqlalchemy",
    "alembic",
    "starlette",
    "uvicorn",
    "httpx",
    "numpy",
    "pydantic",
    "sklearn",
)

CORE_WITHOUT_TORCH = (
    "secureproto.cli.root",
    "secureproto.wire.messages",
    "secureproto.crypto.sealing",
    "secureproto.audit.verify",
    "secureproto.study.file",
    "secureproto.aggregation.round",
    "secureproto_server.app",
)


def loaded_after(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after running `code`."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(' '.join(sys.modules), file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in run.stderr.split()}


def test_root_help_is_light() -> None:
    loaded = loaded_after("from secureproto.cli.root import run\nassert run(['--help']) == 0")
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("module", CORE_WITHOUT_TORCH)
def test_rooms_of_the_server_never_load_torch(module: str) -> None:
    assert not loaded_after(f"import {module}") & {"torch", "torchvision", "sklearn", "safetensors"}
