from pathlib import Path

import pytest

from secureproto.errors import Misconfigured
from secureproto_server.settings import load


def written(directory: Path, text: str) -> Path:
    path = directory / "server.toml"
    path.write_text(text)
    return path


def test_defaults_are_safe_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    settings = load(written(tmp_path, 'credentials = "secrets"\n'))
    assert settings.admin.host == settings.metrics.host == settings.health.host == "127.0.0.1"
    assert settings.state == tmp_path / "state"
    assert settings.credentials == tmp_path / "secrets"
    assert load(tmp_path) == settings


def test_the_environment_wins_over_the_file_key_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECUREPROTO_SERVER_SITE__PORT", "0")
    settings = load(written(tmp_path, '[site]\nhost = "0.0.0.0"\nport = 99\n'))
    assert (settings.site.host, settings.site.port) == ("0.0.0.0", 0)  # noqa: S104 - nothing listens here


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour = 1\n", ["server.toml: colour: unknown key"]),
        ("[site]\nport = 70000\n", ["server.toml: site.port", "65535"]),
        ("[site]\nport = 1\nhots = 'x'\n", ["server.toml: site.hots: unknown key"]),
        ("site_uploads = 'many'\n", ["server.toml: site_uploads", "integer"]),
        ("names = []\n", ["server.toml: names"]),
        ("= 3\n", ["server.toml: not TOML"]),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(Misconfigured) as caught:
        load(written(tmp_path, text))
    assert "\n" not in caught.value.message
    for word in words:
        assert word in caught.value.message


def test_a_wrong_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECUREPROTO_SERVER_LOG_LEVEL", "loud")
    with pytest.raises(Misconfigured, match="SECUREPROTO_SERVER_LOG_LEVEL"):
        load(written(tmp_path, ""))
    monkeypatch.setenv("SECUREPROTO_SERVER_LOG_LEVEL", "info")
    monkeypatch.setenv("SECUREPROTO_SERVER_NAMES", "not json")
    with pytest.raises(Misconfigured, match="SECUREPROTO_SERVER_"):
        load(written(tmp_path, ""))


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        load(tmp_path)
    assert "federation init" in caught.value.hint


def test_the_digest_covers_every_setting(tmp_path: Path) -> None:
    one, other = load(written(tmp_path, "")), load(written(tmp_path, "certificate_hours = 24\n"))
    assert one.digest() != other.digest()
    assert one.digest() == load(written(tmp_path, "")).digest()
