from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from secureproto.clock import SystemClock
from secureproto.errors import Conflict, Misconfigured
from secureproto_server import founding, identity, roots, settings
from secureproto_server.desk import Desk

CHARTER = founding.Charter("testbed", ("localhost", "127.0.0.1"), "alice", "Test Hospital")


def test_a_founded_federation_is_complete_and_its_secrets_are_shut(tmp_path: Path) -> None:
    founded = founding.found(tmp_path / "fed", CHARTER, tmp_path / "secrets", SystemClock())
    assert set(founded.new_secrets) == {"ca", "server", "operator"}
    planned = {Path(name) for name in founding.plan(tmp_path / "fed")}
    assert {path for path in (tmp_path / "fed").rglob("*") if path.is_file()} == planned
    for path in [*planned, *(tmp_path / "secrets").iterdir()]:
        if path.suffix == ".key" or path.parent.name == "secrets":
            assert path.stat().st_mode & 0o077 == 0, path
        if path.suffix == ".key":
            assert b"ENCRYPTED" in path.read_bytes()
    root = roots.founding((tmp_path / "fed/server/root.json").read_bytes())
    assert founded.root_digest == root.digest()
    assert Desk(tmp_path / "fed/operator").root == root
    keys = identity.load(settings.load(tmp_path / "fed/server"))
    roots.require_own_keys(root, keys.signer.public, keys.hpke_public)


@pytest.mark.parametrize("name", ["tls.key", "signing.key", "hpke.key", "intermediate.key"])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, name: str) -> None:
    founding.found(tmp_path / "fed", CHARTER, tmp_path / "secrets", SystemClock())
    (tmp_path / "fed/server" / name).chmod(0o644)
    with pytest.raises(Misconfigured, match=f"{name} can be read by other users"):
        identity.load(settings.load(tmp_path / "fed/server"))


def test_the_servers_certificate_leads_to_the_root(tmp_path: Path) -> None:
    founding.found(tmp_path / "fed", CHARTER, tmp_path / "secrets", SystemClock())
    leaf, intermediate = x509.load_pem_x509_certificates((tmp_path / "fed/server/tls.pem").read_bytes())
    ca = x509.load_pem_x509_certificate((tmp_path / "fed/ca/root-ca.pem").read_bytes())
    verifier = PolicyBuilder().store(Store([ca])).build_server_verifier(x509.DNSName("localhost"))
    assert verifier.verify(leaf, [intermediate])[-1] == ca


def test_nothing_that_is_there_is_touched(tmp_path: Path) -> None:
    founding.found(tmp_path / "fed", CHARTER, tmp_path / "secrets", SystemClock())
    before = {path: path.read_bytes() for path in (tmp_path / "fed").rglob("*") if path.is_file()}
    with pytest.raises(Conflict):
        founding.found(tmp_path / "fed", CHARTER, tmp_path / "secrets", SystemClock())
    assert before == {path: path.read_bytes() for path in (tmp_path / "fed").rglob("*") if path.is_file()}


def test_passphrases_that_are_there_are_used(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name in founding.SECRETS:
        (secrets / name).write_text("correct horse\n")
        (secrets / name).chmod(0o600)
    assert founding.found(tmp_path / "fed", CHARTER, secrets, SystemClock()).new_secrets == ()


@pytest.mark.parametrize(
    "charter",
    [
        founding.Charter("Heart Consortium", ("localhost",), "alice", "x"),
        founding.Charter("a" * 64, ("localhost",), "alice", "x"),
        founding.Charter("heart", ("localhost",), "  ", "x"),
        founding.Charter("heart", ("localhost",), "alice", "two\nlines"),
        founding.Charter("heart", ("local host",), "alice", "x"),
        founding.Charter("heart", ("localhost", "-"), "alice", "x"),
    ],
)
def test_names_that_no_document_can_hold(charter: founding.Charter) -> None:
    with pytest.raises(Misconfigured):
        founding.check(charter)
