"""The operator's commands against a running server, as a person types them."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from secureproto.cli.root import run
from secureproto.wire import base64url, layouts, tensors
from secureproto.wire.messages import InviteToken
from secureproto_client.demo.metrics import scrape
from support.federation import Federation, federation
from support.rounds import answer
from support.sim_site import Keys, SimSite, ask
from support.sim_study import SimStudy

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with federation(tmp_path_factory.mktemp("commands")) as made:
        made.enrol("alpha")
        made.enrol("beta")
        made.create_study(SimStudy(quorum=2))
        yield made


class Terminal:
    """Types a command; gives its exit code and what it printed as JSON."""

    def __init__(self, fed: Federation, capsys: pytest.CaptureFixture[str]) -> None:
        self._fed, self._capsys = fed, capsys

    def __call__(self, *words: str, code: int = 0) -> object:
        self._capsys.readouterr()
        got = run([*words, "--operator", str(self._fed.directory / "operator"), "-o", "json"])
        printed = self._capsys.readouterr()
        assert got == code, printed.err
        return json.loads(printed.out) if code == 0 else printed.err


@pytest.fixture
def type_(fed: Federation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("SECUREPROTO_OPERATOR_ADMIN_URL", f"https://127.0.0.1:{fed.ports['admin']}")
    return Terminal(fed, capsys)


def rows(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def record(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def test_a_federation_is_founded_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["federation", "init", str(tmp_path / "fed"), "--name", "heart", "--server-name", "localhost"]
    words += ["--operator", "bob", "--organisation", "Clinic", "--credentials", str(tmp_path / "secrets")]
    assert run([*words, "--dry-run"]) == 0
    assert not (tmp_path / "fed").exists()
    assert run([*words, "-o", "json"]) == 0
    assert "lock away" in capsys.readouterr().err
    assert run(words) == 7
    assert "holds a federation already" in capsys.readouterr().err
    words[4] = "Heart Consortium"
    assert run(words) == 2
    words[2], words[4], words[6] = str(tmp_path / "other"), "heart", "local host"
    assert run(words) == 2
    assert not (tmp_path / "other").exists()


def test_times_are_shown_as_a_person_reads_them(fed: Federation, type_: Terminal) -> None:
    status = record(type_("server", "status"))
    sites = rows(type_("site", "list"))
    for text in (status["now"], status["root_expires"], *(row["enrolled"] for row in sites)):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(text))


def test_status_and_root_document(fed: Federation, type_: Terminal) -> None:
    assert record(type_("server", "status"))["sites_active"] == 2
    shown = record(type_("federation", "show"))
    assert shown["sites"] == ["alpha", "beta"]
    assert shown["version"] == 3


def test_invite_and_approve_a_site(fed: Federation, type_: Terminal, tmp_path: Path) -> None:
    out = tmp_path / "gamma.invite"
    type_("site", "invite", "gamma", "--out", str(out), "--dry-run")
    assert "'Gamma B' is not a name" in str(type_("site", "invite", "Gamma B", "--out", str(out), code=2))
    assert not out.exists()
    type_("site", "invite", "gamma", "--out", str(out))
    assert out.stat().st_mode & 0o777 == 0o600
    assert "there already" in str(type_("site", "invite", "gamma", "--out", str(out), code=7))
    token = InviteToken.parse(base64url.decode(out.read_text().strip()))
    site = SimSite(tmp_path / "gamma", "gamma", keys=Keys.make(), root=fed.desk.root, port=fed.ports["site"])
    fingerprint = ask(site, token).fingerprint
    assert [row["site"] for row in rows(type_("site", "list")) if row["state"] == "pending"] == ["gamma"]
    wrong = str(type_("site", "approve", "gamma", "--fingerprint", "0" * 64, code=7))
    assert "fingerprint" in wrong
    # the right one comes by telephone only: nothing at the desk shows it
    assert fingerprint[:8] not in wrong + json.dumps(type_("site", "list"))
    type_("site", "approve", "gamma", "--fingerprint", fingerprint[:16], "--dry-run")
    assert record(type_("site", "approve", "gamma", "--fingerprint", fingerprint))["root_version"] == 4
    reply = ask(site, token)
    assert reply.state == "approved"
    site.certify(reply.certificates)
    assert "waits" in str(type_("site", "approve", "gamma", "--fingerprint", fingerprint, code=7))
    assert "confirm" in str(type_("site", "revoke", "gamma", "--confirm", "gama", "--reason", "x", code=7))
    type_("site", "suspend", "gamma", "--confirm", "gamma", "--reason", "test", "--dry-run")
    type_("site", "suspend", "gamma", "--confirm", "gamma", "--reason", "test")
    with pytest.raises(AssertionError, match="suspended"):
        site.poll()
    refused = [
        value
        for name, labels, value in scrape(fed.ports["metrics"])
        if name == "secureproto_auth_failures_total" and labels == {"surface": "site", "reason": "suspended"}
    ]
    assert refused == [1.0]
    type_("site", "resume", "gamma", "--reason", "test")
    type_("site", "revoke", "gamma", "--confirm", "gamma", "--reason", "test")
    states = {row["site"]: row["state"] for row in rows(type_("site", "list"))}
    assert states == {"alpha": "active", "beta": "active", "gamma": "revoked"}
    site.close()


def test_deny_a_site(fed: Federation, type_: Terminal, tmp_path: Path) -> None:
    out = tmp_path / "delta.invite"
    type_("site", "invite", "delta", "--out", str(out))
    token = InviteToken.parse(base64url.decode(out.read_text().strip()))
    site = SimSite(tmp_path / "delta", "delta", keys=Keys.make(), root=fed.desk.root, port=fed.ports["site"])
    ask(site, token)
    type_("site", "deny", "delta", "--reason", "nobody knows them", "--dry-run")
    type_("site", "deny", "delta", "--reason", "nobody knows them")
    assert "waits" in str(type_("site", "deny", "delta", "--reason", "again", code=7))
    site.close()


def test_open_watch_list_and_export(fed: Federation, type_: Terminal, tmp_path: Path) -> None:
    study = fed.study
    assert study is not None
    assert "had no round" in str(type_("round", "status", "small", code=7))
    assert record(type_("round", "open", "small", "--dry-run"))["would_open"] == 1
    watcher = threading.Thread(target=answer_all, args=(fed, study))
    watcher.start()
    ends = rows(type_("round", "open", "small", "--wait", "--timeout", "20"))
    watcher.join()
    assert [(end["round"], end["outcome"], end["version"]) for end in ends] == [(0, "completed", 1)]
    assert record(type_("round", "status", "small"))["submitted"] == ["alpha", "beta"]
    assert len(rows(type_("round", "watch", "small"))) == 1
    assert [row["version"] for row in rows(type_("model", "list", "small"))] == [0, 1]
    out = tmp_path / "model.safetensors"
    type_("model", "export", "small", "--out", str(out))
    arrays = tensors.read_all(layouts.shared_schema(study.model), out.read_bytes())
    site = fed.sites["alpha"]
    np.testing.assert_array_equal(
        arrays["extractor.weight"], site.fetch(site.release(), study.model)[0]["extractor.weight"]
    )
    type_("round", "open", "small")
    type_("round", "abort", "small", "1", "--confirm", "small", "--reason", "test", "--dry-run")
    type_("round", "abort", "small", "1", "--confirm", "small", "--reason", "test")
    assert "cannot become" in str(
        type_("round", "abort", "small", "1", "--confirm", "small", "--reason", "t", code=7)
    )
    type_("study", "close", "small", "--confirm", "small", "--reason", "test", "--dry-run")
    type_("study", "close", "small", "--confirm", "small", "--reason", "test")
    assert record(type_("study", "show", "small"))["state"] == "closed"
    assert "no more rounds" in str(type_("round", "open", "small", code=7))


def answer_all(fed: Federation, study: SimStudy) -> None:
    fed.until(lambda: fed.sites["alpha"].poll().invitations)
    for seed, name in enumerate(("alpha", "beta")):
        answer(fed.sites[name], study, seed)


def test_the_log_is_shown_exported_and_verifies_offline(
    fed: Federation, type_: Terminal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = rows(type_("audit", "tail", "--count", "5"))
    assert len(shown) == 5
    out = tmp_path / "log.jsonl"
    entries = record(type_("audit", "export", "--out", str(out)))["entries"]
    assert run(["audit", "verify", str(out), "--root", str(fed.directory / "operator/root.json")]) == 0
    data = out.read_bytes()
    out.write_bytes(data.replace(b'"actor":"alice"', b'"actor":"mallo"', 1))
    assert run(["audit", "verify", str(out), "--root", str(fed.directory / "operator/root.json")]) == 6
    assert isinstance(entries, int)


def test_a_real_study_is_created_from_its_file(fed: Federation, type_: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_bytes(SimStudy(name="torchy").file())
    assert record(type_("study", "create", str(file), "--dry-run"))["would_create"] == "torchy"
    assert record(type_("study", "create", str(file)))["version"] == 0
    type_("study", "create", str(file))  # the same again changes nothing
    assert "torchy" in [row["study"] for row in rows(type_("study", "list"))]
    file.write_bytes(SimStudy(name="torchy", total=6).file())
    assert "another name" in str(type_("study", "create", str(file), code=7))
    file.write_text("nonsense = 1\n")
    assert str(file) in str(type_("study", "create", str(file), code=2))


def test_an_unreachable_server_is_code_3_with_a_hint(
    fed: Federation, type_: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECUREPROTO_OPERATOR_ADMIN_URL", "https://127.0.0.1:1")
    assert "hint: is it running" in str(type_("server", "status", code=3))


def test_status_waits_for_a_server_and_gives_up_in_one_line(type_: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert record(type_("server", "status", "--wait"))["federation"]
    monkeypatch.setenv("SECUREPROTO_OPERATOR_ADMIN_URL", "https://127.0.0.1:9")  # discard: nobody listens
    assert "cannot be reached" in str(type_("server", "status", "--wait", "--timeout", "1", code=3))
