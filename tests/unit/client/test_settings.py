"""client.toml: what is wrong is one line with file and key; a first one is written once."""

from pathlib import Path

import pytest

from secureproto.data.settings import CsvSettings
from secureproto.errors import Misconfigured
from secureproto_client import first_settings, settings
from secureproto_client.link import _proxy
from secureproto_client.paths import SitePaths


def load(path: Path, text: str) -> settings.Settings:
    (path / "client.toml").write_text(text)
    return settings.load(path / "client.toml")


def test_the_first_file_loads_and_is_never_rewritten(tmp_path: Path) -> None:
    paths = SitePaths(tmp_path)
    assert first_settings.write_first(paths, tmp_path / "secrets")
    said = settings.load(paths.settings)
    assert (said.credentials, said.training.threads) == (tmp_path / "secrets", 1)
    paths.settings.write_text("log_level = 'debug'\n")
    assert not first_settings.write_first(paths, None)
    assert settings.load(paths.settings).log_level == "debug"


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    said = load(tmp_path, 'credentials = "c"\n[data]\nkind = "csv"\npath = "a.csv"\nhold_out = 0\n')
    data = said.data_for("any")
    assert isinstance(data, CsvSettings)
    assert (said.credentials, data.path) == (tmp_path / "c", tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("colour = 1", "client.toml: colour: unknown key"),
        ("[training]\nthread = 1", "client.toml: training.thread: unknown key"),
        ("[training]\nthreads = 0", "client.toml: training.threads: input should be greater than or equal to 1"),
        ("[studies.heart]\naccept = 'yes'", "client.toml: studies.heart.accept: must be true or false"),
        ("[studies.heart]\naccept = 1", "client.toml: studies.heart.accept: must be true or false"),
        ("[studies.heart]\naccept = true\ndigset = 'a'", "client.toml: studies.heart.digset: unknown key"),
        ("[studies.heart]\ndigest = 'a'", "client.toml: studies.heart.digest: string should match"),
        ("[data]\nkind = 'csv'\npath = 'a'\npathh = 'a'\nhold_out = 0", "client.toml: data.pathh: unknown key"),
        ("[data]\nkind = 'excel'", "client.toml: data: input tag 'excel' found"),
        ("[data]\npath = 'a'", "client.toml: data: unable to extract tag"),
        ("[proxy]\nurl = 'http://user:secret@proxy'", "client.toml: proxy.url: must be http"),
        ("log_level = ", "client.toml: not TOML: "),
    ],
)
def test_one_line_for_what_is_wrong(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        load(tmp_path, text)
    assert line in caught.value.message
    assert "\n" not in caught.value.message
    assert "secret" not in caught.value.message


def test_the_hint_speaks_of_the_table_that_the_key_is_in(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        load(tmp_path, "colour = 1")
    assert "data, log_level" in caught.value.hint
    with pytest.raises(Misconfigured) as caught:
        load(tmp_path, "[training]\nthread = 1")
    assert "log_level" not in caught.value.hint


def test_missing_and_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read: No such file"):
        settings.load(tmp_path / "client.toml")
    (tmp_path / "client.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(Misconfigured, match="not TOML"):
        settings.load(tmp_path / "client.toml")
    with pytest.raises(Misconfigured, match="cannot be read: Is a directory"):
        settings.load(tmp_path)


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECUREPROTO_CLIENT_TRAINING__THREADS", "3")
    assert load(tmp_path, "[training]\nthreads = 2").training.threads == 3
    monkeypatch.setenv("SECUREPROTO_CLIENT_TRAINING__THREADS", "many")
    with pytest.raises(Misconfigured, match="SECUREPROTO_CLIENT_TRAINING__THREADS: input should be a valid integer"):
        load(tmp_path, "")


def test_silence_is_no(tmp_path: Path) -> None:
    said = load(tmp_path, "")
    assert not said.study("heart").accept
    with pytest.raises(Misconfigured, match=r"no \[data\], and no \[studies.heart.data\]"):
        said.data_for("heart")


def test_a_proxy_login_is_read_from_its_file(tmp_path: Path) -> None:
    said = load(tmp_path, '[proxy]\nurl = "http://proxy:3128"\ncredentials = "login"\n')
    (tmp_path / "login").write_text("user:pass:word\n")
    (tmp_path / "login").chmod(0o600)
    proxy = _proxy(said.proxy)
    assert proxy is not None
    assert (proxy.user, proxy.password, proxy.address) == ("user", "pass:word", ("proxy", 3128))
    assert "pass:word" not in repr(proxy)
    (tmp_path / "login").write_text("user")
    with pytest.raises(Misconfigured, match="not one line `user:password`"):
        _proxy(said.proxy)


def test_the_passphrase_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    first, made = first_settings.passphrase(tmp_path / "c")
    assert made == tmp_path / "c" / "site"
    assert first_settings.passphrase(tmp_path / "c") == (first, None)
    with pytest.raises(Misconfigured, match="no credential directory"):
        first_settings.passphrase(None)
