"""Rounds that end otherwise, receipts that do not hold, sites that are shut out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from secureproto.crypto import envelope
from secureproto.errors import (
    IntegrityBroken,
    Rejected,
)
from secureproto.wire import base64url
from secureproto.wire.messages import UploadReceipt
from secureproto_client import delivery
from secureproto_client.agent import Agent
from secureproto_client.journal import State
from secureproto_client.transport.memory import MemoryTransport, Request
from secureproto_client.transport.seam import Reply
from support.site_peer import SITE, STUDY, Peer, Upload, problem
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


def rows(agent: Agent) -> list[tuple[int, State, str]]:
    return [(row.round, row.state, row.reason) for row in agent.site.journal.rounds()]


def test_a_round_that_was_closed_meanwhile(agent: Agent, rig: Rig) -> None:
    rig.peer.open()

    def closing(request: Request) -> Reply:
        if request.path.endswith("/manifest"):
            rig.peer.open_round = None
        return rig.peer.handle(request)

    agent.site.link.renew()
    agent.site.link.connect = lambda _trust, _certificate: MemoryTransport(closing)
    agent.step(wait=0)
    assert rows(agent) == [(0, State.CLOSED, "closed")]


def test_a_damaged_outbox_file_is_never_sent(agent: Agent, rig: Rig) -> None:
    journal = agent.site.journal
    rig.peer.open()
    journal.start(STUDY, 0, 0)
    sent_before = len(rig.peer.manifests)
    core = rig.peer  # a manifest of another round's bytes is as good as any for a file that is gone
    agent.step(wait=0)
    manifest = core.manifests[0][0]
    journal.start(STUDY, 1, 0)
    journal.seal(STUDY, 1, manifest, "small-1.sealed")
    (rig.paths.outbox / "small-1.sealed").write_bytes(b"other bytes")
    row = journal.row(STUDY, 1)
    assert row is not None
    delivery.deliver(agent.site, row)
    assert rows(agent)[1] == (1, State.CLOSED, "the sealed file is missing or damaged")
    assert len(rig.peer.manifests) == sent_before + 1


def test_a_receipt_for_another_upload_is_not_taken(agent: Agent, rig: Rig) -> None:
    number = rig.peer.open()
    agent.step(wait=0)
    row = agent.site.journal.row(STUDY, number)
    assert row is not None
    assert row.receipt is not None
    trust = agent.site.link.trust
    with pytest.raises(IntegrityBroken, match="another upload"):
        delivery.check_receipt(trust, row.receipt, row, site=SITE, digest="0" * 64)
    with pytest.raises(IntegrityBroken, match="another upload"):
        delivery.check_receipt(trust, row.receipt, replace(row, round=9), site=SITE, digest="0" * 64)


@pytest.mark.parametrize(
    "lie",
    [
        {"proof": ("00" * 32,)},
        {"proof": ()},
        {"sequence": 0},
        {"entry": base64url.encode(b"{}")},
        {"checkpoint": base64url.encode(b"no checkpoint")},
    ],
)
def test_a_signed_receipt_whose_entry_is_not_in_the_log_is_not_taken(
    agent: Agent, rig: Rig, monkeypatch: pytest.MonkeyPatch, lie: dict[str, object]
) -> None:
    rig.peer.complete(answered(agent, rig))
    agent.step(wait=0)
    honest, trust = rig.peer._receipt, agent.site.link.trust

    def lying(number: int, upload: Upload) -> bytes:
        receipt = trust.from_server(honest(number, upload), UploadReceipt)
        return envelope.sign(receipt.model_copy(update=lie), rig.peer.signer)

    monkeypatch.setattr(rig.peer, "_receipt", lying)
    with pytest.raises(IntegrityBroken):
        answered(agent, rig)
    assert [state for _, state, _ in rows(agent)] == [State.DONE, State.SENT]


def answered(agent: Agent, rig: Rig) -> int:
    number = rig.peer.open()
    agent.step(wait=0)
    return number


def test_what_was_sealed_is_sent_by_the_next_run_without_another_invitation(
    agent: Agent, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "deliver", lambda *_: None)  # killed right after sealing
    answered(agent, rig)
    monkeypatch.undo()
    assert rows(agent) == [(0, State.SEALED, "")]
    agent = rig.start()
    agent.resume()
    assert rows(agent) == [(0, State.DONE, "")]


def test_two_histories_of_one_size_raise_an_alarm(agent: Agent, rig: Rig) -> None:
    rig.peer.open()
    agent.site.facts.keep_all({delivery.CHECKPOINT_SIZE: "1", delivery.CHECKPOINT_ROOT: "00" * 32})
    with pytest.raises(IntegrityBroken, match="two histories of 1 entries"):
        agent.step(wait=0)


def test_a_suspended_site_waits_and_asks_again(rig: Rig) -> None:
    slept: list[float] = []
    answers = [problem("suspended", 403, "the site is suspended")]

    def handler(request: Request) -> Reply:
        return answers.pop() if answers and request.path == "/v1/poll" else rig.peer.handle(request)

    rig.connect = lambda: MemoryTransport(handler)
    rig.sleep = slept.append
    rig.peer.state = "completed"
    rig.start().run(until_complete=True)
    assert slept[0] == 60.0


def test_a_revoked_site_ends(rig: Rig) -> None:
    rig.connect = lambda: MemoryTransport(lambda _: problem("revoked_key", 403, "the key is revoked"))
    with pytest.raises(Rejected, match="the key is revoked"):
        rig.start().run()
