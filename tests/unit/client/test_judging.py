"""Invitations and releases: nothing is answered or installed that was not signed for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from secureproto.crypto.keys import PublicKey
from secureproto.errors import (
    IntegrityBroken,
)
from secureproto.wire.messages import Invitation
from secureproto_client.agent import Agent
from secureproto_client.invitations import Expected, Standing, judge
from support.site_peer import SITE, START, STUDY, Peer
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


def expected(peer: Peer) -> Expected:
    key = PublicKey.of(peer.hpke.public_key()).key_id
    return Expected(federation="heart", site=SITE, epoch=0, now=START, latest=0, recipient_key=key)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"site": "hungary"}, "another site"),
        ({"federation": "other"}, "another site or federation"),
        ({"study_digest": "0" * 64}, "another study file"),
        ({"schema_digest": "0" * 64}, "another study file, model"),
        ({"policy_digest": "0" * 64}, "or policy"),
        ({"plaintext_length": 7}, "another length"),
        ({"recipient_key": "0" * 64}, "does not name"),
        ({"opened": START + 601}, "opened in the future"),
    ],
)
def test_an_invitation_that_contradicts_what_was_pinned(
    agent: Agent, rig: Rig, change: dict[str, object], line: str
) -> None:
    invitation = rig.peer.invite(0).model_copy(update=change)
    with pytest.raises(IntegrityBroken, match=line):
        judge(invitation, agent._studies[STUDY].descriptor, expected(rig.peer))


def test_standing_of_an_invitation(agent: Agent, rig: Rig) -> None:
    study, known = agent._studies[STUDY].descriptor, expected(rig.peer)

    def stands(known: Expected, **change: object) -> Standing:
        invitation: Invitation = rig.peer.invite(0).model_copy(update=change)
        return judge(invitation, study, known)

    assert stands(known) is Standing.READY
    assert stands(replace(known, now=START + 600)) is Standing.LATE
    assert stands(known, base_version=1) is Standing.AHEAD
    with pytest.raises(IntegrityBroken, match="older than 1"):
        stands(replace(known, latest=1))
    with pytest.raises(IntegrityBroken, match="epoch 0, this site has seen 2"):
        stands(replace(known, epoch=2))


@pytest.mark.parametrize("part", ["shared", "head"])
def test_a_body_that_was_changed_is_not_installed(rig: Rig, part: str) -> None:
    body = bytearray(rig.peer.blobs[0, part])
    body[-1] ^= 1
    rig.peer.blobs[0, part] = bytes(body)
    agent = rig.start()
    with pytest.raises(IntegrityBroken, match="not the bytes that the server signed for"):
        agent.step(wait=0)
    assert agent.site.models(STUDY).names() == []


def test_a_body_that_goes_on_is_cut(rig: Rig) -> None:
    rig.peer.blobs[0, "shared"] += b"more"
    with pytest.raises(IntegrityBroken, match="more than it signed for"):
        rig.start().step(wait=0)


def test_a_first_version_that_the_operator_did_not_sign(rig: Rig) -> None:
    shared, head = rig.peer._first
    changed = {name: array + 1 for name, array in head.items()}
    rig.peer._publish(0, shared, changed, round_=-1, final=False)
    with pytest.raises(IntegrityBroken, match="not what the operator signed"):
        rig.start().step(wait=0)


@pytest.mark.parametrize("change", [{"version": 3}, {"part": "head"}, {"site": "hungary"}, {"epoch": 9}])
def test_a_part_sealed_for_something_else(rig: Rig, change: dict[str, object]) -> None:
    release = rig.peer.released[0]
    core = release.shared.core.model_copy(update=change)
    shared = release.shared.model_copy(update={"core": core})
    rig.peer.released[0] = release.model_copy(update={"shared": shared})
    with pytest.raises(IntegrityBroken, match="sealed for something else"):
        rig.start().step(wait=0)


@pytest.mark.parametrize("change", [{"site": "hungary"}, {"federation": "other"}, {"study_digest": "0" * 64}])
def test_a_release_for_something_else(rig: Rig, change: dict[str, object]) -> None:
    rig.peer.released[0] = rig.peer.released[0].model_copy(update=change)
    agent = rig.start()
    with pytest.raises(IntegrityBroken, match="for another site or study"):
        agent.step(wait=0)
    assert agent.site.models(STUDY).names() == []


def test_a_server_that_was_rolled_back_is_found(rig: Rig) -> None:
    rig.peer.epoch = 3
    with pytest.raises(IntegrityBroken, match="a release of small is of an older epoch"):
        rig.start().step(wait=0)
    rig.peer.publish_first()
    rig.start().step(wait=0)
    rig.peer.epoch = 2
    with pytest.raises(IntegrityBroken, match="the server is in epoch 2, this site has seen 3"):
        rig.start().step(wait=0)


def test_numbers_that_are_not_finite_are_not_installed(agent: Agent, rig: Rig) -> None:
    shared, head = rig.peer._first
    rig.peer.version = 1
    rig.peer._publish(1, shared, {name: array * float("nan") for name, array in head.items()}, round_=0, final=False)
    with pytest.raises(IntegrityBroken, match="not finite"):
        agent.step(wait=0)
    assert agent.site.models(STUDY).names() == ["0"]


def test_a_download_goes_on_where_it_was_cut(rig: Rig) -> None:
    rig.enrol()
    digest = rig.peer.released[0].shared.ciphertext_digest
    (rig.paths.inbox / f"{digest}.part").write_bytes(rig.peer.blobs[0, "shared"][:100])
    rig.start().step(wait=0)
    fetched = [request for request in rig.peer.requests if request.path.endswith("versions/0/shared")]
    assert fetched[0].headers["range"] == "bytes=100-"
