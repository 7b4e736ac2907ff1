"""A misspelt environment variable is told by name, at the server, the desk and the site."""

from pathlib import Path

import pytest

from secureproto.environment import require_known
from secureproto.errors import Misconfigured
from secureproto_client import settings as client
from secureproto_server import settings as server
from support.tree import ROOT

SAMPLES = ROOT / "ops" / "config" / "basic"


def test_known_and_foreign_variables_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECUREPROTO_X_PORT", "1")
    monkeypatch.setenv("SECUREPROTO_X_SITE__PORT", "1")
    monkeypatch.setenv("SECUREPROTO_OTHER", "1")
    require_known("SECUREPROTO_X_", {"port", "site"})


@pytest.mark.parametrize(
    ("variable", "path"),
    [("SECUREPROTO_SERVER_PRT", SAMPLES / "server.toml"), ("SECUREPROTO_CLIENT_BOGUS", SAMPLES / "client.toml")],
)
def test_a_misspelt_one_is_refused_without_its_value(
    variable: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "secret-value")
    with pytest.raises(Misconfigured) as caught:
        server.load(path) if "SERVER" in variable else client.load(path)
    assert variable in caught.value.message
    assert "secret-value" not in caught.value.message + caught.value.hint
