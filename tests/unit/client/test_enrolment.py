"""From an invitation to a certificate, and on to the next one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from secureproto.crypto.certificates import client_certificate
from secureproto.crypto.keys import PublicKey
from secureproto.errors import (
    ApprovalNeeded,
    Conflict,
    IntegrityBroken,
    Misconfigured,
    Rejected,
)
from secureproto.wire import base64url
from secureproto.wire.messages import PublicKeys
from secureproto_client.agent import Agent
from secureproto_client.enrol import read_invitation
from secureproto_client.identity import SiteFile, write_site_file
from secureproto_client.transport.memory import MemoryTransport
from support.site_peer import DAY, SITE, START, Peer, private
from support.site_rig import Rig, enrolled


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = enrolled(tmp_path / "site", Peer())
    yield rig
    rig.kill()


@pytest.fixture
def agent(rig: Rig) -> Agent:
    agent = rig.start()
    agent.step(wait=0)
    return agent


def fresh(tmp_path: Path, peer: Peer) -> Rig:
    return Rig(tmp_path / "fresh", peer, lambda: MemoryTransport(peer.handle))


def test_enrolment_waits_for_a_person_and_goes_on_with_the_same_keys(tmp_path: Path) -> None:
    peer = Peer()
    peer.approve_at_once = False
    rig = fresh(tmp_path, peer)
    with pytest.raises(ApprovalNeeded, match="with the operator"):
        rig.enrol()
    key = rig.paths.signing_key.read_bytes()
    peer.approve_at_once = True
    rig.enrol()
    assert rig.paths.signing_key.read_bytes() == key
    assert rig.paths.certificate.exists()


def test_an_invitation_is_used_once(tmp_path: Path) -> None:
    peer = Peer()
    fresh(tmp_path / "a", peer).enrol()
    with pytest.raises(Rejected, match="used before"):
        fresh(tmp_path / "b", peer).enrol()


def test_an_invitation_that_ran_out(tmp_path: Path) -> None:
    peer = Peer()
    peer.clock.advance(DAY + 1)
    with pytest.raises(Rejected, match="the invitation has expired"):
        fresh(tmp_path, peer).enrol()


def test_a_decision_may_take_longer_than_an_invitation_lives(tmp_path: Path) -> None:
    peer = Peer()
    peer.approve_at_once = False
    rig = fresh(tmp_path, peer)
    with pytest.raises(ApprovalNeeded):
        rig.enrol()
    peer.clock.advance(3 * DAY)
    peer.approve_at_once = True
    rig.enrol()
    assert rig.paths.certificate.exists()


def test_what_is_no_invitation(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        read_invitation(tmp_path / "none")
    for text in ("", "bm8", "ü"):
        (tmp_path / "file").write_text(text)
        with pytest.raises(Misconfigured, match="is not an invitation"):
            read_invitation(tmp_path / "file")


def test_a_directory_belongs_to_one_invitation(rig: Rig) -> None:
    other = SiteFile(federation="heart", site="hungary", server="https://x", root_digest="0" * 64)
    with pytest.raises(Conflict, match="belongs to site cleveland"):
        write_site_file(rig.paths, other)


def test_a_certificate_for_another_key_is_not_taken(tmp_path: Path) -> None:
    peer = Peer()
    rig = fresh(tmp_path, peer)
    leaf = client_certificate(peer.intermediate, PublicKey.of(private(77).public_key()), "heart", SITE, now=START)
    chain = [leaf, peer.intermediate.certificate]
    peer._certificates = lambda csr: tuple(base64url.encode(c.public_bytes(Encoding.DER)) for c in chain)  # type: ignore[method-assign]
    with pytest.raises(IntegrityBroken, match="another key than this site's"):
        rig.enrol()
    assert not rig.paths.certificate.exists()


def test_a_roster_with_other_keys_ends_the_enrolment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    others = PublicKeys(tls=keys(90), signing=keys(91), hpke=keys(92))
    admit = peer.admit
    monkeypatch.setattr(peer, "admit", lambda _: admit(others))
    with pytest.raises(IntegrityBroken):
        fresh(tmp_path, peer).enrol()


def keys(seed: int) -> str:
    return PublicKey.of(private(seed).public_key()).b64


def test_the_certificate_is_renewed_at_half_life(agent: Agent, rig: Rig) -> None:
    before = rig.paths.certificate.read_bytes()
    rig.clock.advance(30 * 3600)
    agent.step(wait=0)
    assert rig.paths.certificate.read_bytes() == before
    rig.clock.advance(10 * 3600)
    agent.step(wait=0)
    assert rig.paths.certificate.read_bytes() != before
