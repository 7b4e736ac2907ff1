"""Whom a site believes: chains of root documents, signatures, clocks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secureproto.clock import ManualClock
from secureproto.crypto import envelope
from secureproto.crypto.keys import FileSigner, PublicKey
from secureproto.errors import ApprovalNeeded, IntegrityBroken, Misconfigured, Rejected
from secureproto.wire.messages import Person, PollReply, PublicKeys, RootDocument, ServerKeys, StudyDescriptor
from secureproto_client import roots
from secureproto_client.database import Database
from secureproto_client.facts import Facts
from secureproto_client.identity import SiteFile
from secureproto_client.paths import SitePaths
from secureproto_client.times import Times
from secureproto_client.trust import Trust, advance, changes, demand_own_keys, pinned
from support.site_peer import START, Peer, private

STRANGER = FileSigner(private(99))


@pytest.fixture
def peer() -> Peer:
    return Peer()


def first(peer: Peer) -> Trust:
    return pinned(peer.roots[1], peer.root.digest())


def keys(number: int) -> PublicKeys:
    tls, signing, hpke = (PublicKey.of(private(number + i).public_key()).b64 for i in range(3))
    return PublicKeys(tls=tls, signing=signing, hpke=hpke)


def test_the_pinned_root_is_the_one_of_the_invitation(peer: Peer) -> None:
    assert first(peer).document == peer.root
    with pytest.raises(IntegrityBroken):
        pinned(peer.roots[1], "0" * 64)
    with pytest.raises(IntegrityBroken, match="0 known keys"):
        pinned(envelope.sign_threshold(peer.root, STRANGER), peer.root.digest())


def test_each_version_is_signed_by_the_one_before(peer: Peer) -> None:
    trust = first(peer)
    mallory = Person(name="mallory", organisation="x", role="operator", key=STRANGER.public.b64)
    following = peer.root.model_copy(update={"version": 2, "people": (mallory,)})
    with pytest.raises(IntegrityBroken, match="next root document"):
        advance(trust, envelope.sign_threshold(following, STRANGER))
    taken = advance(trust, envelope.sign_threshold(following, peer.operator))
    third = following.model_copy(update={"version": 3})
    with pytest.raises(IntegrityBroken):
        advance(taken, envelope.sign_threshold(third, peer.operator))
    assert advance(taken, envelope.sign_threshold(third, STRANGER)).document.version == 3


@pytest.mark.parametrize(("field", "value"), [("version", 1), ("version", 3), ("federation", "other")])
def test_a_version_that_does_not_follow(peer: Peer, field: str, value: object) -> None:
    following = peer.root.model_copy(update={"version": 2, field: value})
    with pytest.raises(IntegrityBroken):
        advance(first(peer), envelope.sign_threshold(following, peer.operator))


def test_changes_are_named(peer: Peer) -> None:
    peer.admit(keys(40))
    after = peer.root.model_copy(
        update={"threshold": 2, "server": ServerKeys(signing=(STRANGER.public.b64,), hpke=peer.root.server.hpke)}
    )
    lines = changes(first_document(peer), after)
    assert "site added: cleveland" in lines
    assert "threshold removed: 1" in lines
    assert any(line.startswith("server signing key added") for line in lines)
    peer.admit(keys(50))
    assert changes(after, peer.root)[0] == "site has new keys: cleveland"


def first_document(peer: Peer) -> RootDocument:
    return pinned(peer.roots[1], peer.first_root(START).digest()).document


def test_the_roster_must_have_our_own_keys(peer: Peer) -> None:
    with pytest.raises(Rejected, match="not on the roster"):
        demand_own_keys(first(peer), "cleveland", keys(40))
    before = first(peer)
    peer.admit(keys(40))
    trust = advance(before, peer.roots[2])
    demand_own_keys(trust, "cleveland", keys(40))
    with pytest.raises(IntegrityBroken, match="other keys for site cleveland"):
        demand_own_keys(trust, "cleveland", keys(50))


def test_messages_are_the_servers_and_studies_the_operators(peer: Peer) -> None:
    trust = first(peer)
    reply = PollReply(
        federation="heart", epoch=0, site="cleveland", now=1, root_version=1, studies=(), releases=(),
        invitations=(), outcomes=(),
    )  # fmt: skip
    assert trust.from_server(envelope.sign(reply, peer.signer), PollReply) == reply
    for signer in (peer.operator, STRANGER):
        with pytest.raises(IntegrityBroken, match="not from the server"):
            trust.from_server(envelope.sign(reply, signer), PollReply)
    assert trust.from_operator(peer.descriptor, StudyDescriptor).study == "small"
    with pytest.raises(IntegrityBroken, match="not from an operator"):
        trust.from_operator(envelope.sign(reply, peer.signer), PollReply)


def test_an_expired_root_needs_people(peer: Peer) -> None:
    first(peer).demand_fresh(START)
    with pytest.raises(ApprovalNeeded, match="root document version 1 expired"):
        first(peer).demand_fresh(peer.root.expires)


def test_the_chain_on_the_disk_is_checked_at_every_load(peer: Peer, tmp_path: Path) -> None:
    paths = SitePaths(tmp_path)
    paths.make()
    site = SiteFile(federation="heart", site="cleveland", server="https://x", root_digest=peer.root.digest())
    with pytest.raises(Misconfigured, match="no root document"):
        roots.load(paths, site)
    trust = first(peer)
    roots.store(paths, trust)
    peer.admit(keys(40))
    roots.follow(paths, trust, 2, lambda version: peer.roots[version])
    assert roots.load(paths, site).document.version == 2
    with pytest.raises(IntegrityBroken, match="server has root document 1, this site has 2"):
        roots.follow(paths, roots.load(paths, site), 1, lambda version: peer.roots[version])
    (paths.roots / "2.json").write_bytes(envelope.sign_threshold(peer.root, STRANGER))
    with pytest.raises(IntegrityBroken):
        roots.load(paths, site)


@pytest.fixture
def facts(tmp_path: Path) -> Iterator[Facts]:
    database = Database(tmp_path / "j.db")
    yield Facts(database)
    database.close()


def test_signed_times_never_go_back(facts: Facts) -> None:
    clock = ManualClock(START)
    times = Times(clock, facts)
    times.accept(START)
    times.accept(START - 5)
    with pytest.raises(IntegrityBroken, match="6 s before what it signed earlier"):
        times.accept(START - 6)
    clock.advance(7 * 86_400)
    times.accept(START + 7 * 86_400)
    clock.advance(-7 * 86_400)
    with pytest.raises(Misconfigured, match="before the server's last message"):
        times.now()


@pytest.mark.parametrize("off", [-601, 601])
def test_ten_minutes_apart_needs_a_person(facts: Facts, off: int) -> None:
    times = Times(ManualClock(START), facts)
    times.accept(START + (600 if off > 0 else -600))
    with pytest.raises((ApprovalNeeded, IntegrityBroken)) as caught:
        times.accept(START + off)
    assert off < 0 or "601 s apart" in caught.value.message
