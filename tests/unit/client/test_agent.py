"""A site's whole life in one process: enrolment, rounds, versions, local training, refusals."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from secureproto.crypto import envelope
from secureproto.errors import IntegrityBroken, PolicyDenied
from secureproto.study import file as study_files
from secureproto_client import delivery, studies
from secureproto_client.agent import Agent
from secureproto_client.journal import State
from secureproto_client.pointer import Pointer
from support.site_peer import STUDY, Peer
from support.site_rig import SETTINGS, Rig, enrolled, torch_learner
from support.study_toml import dumps, private_table


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = enrolled(tmp_path / "site", Peer())
    yield rig
    rig.kill()


def play_round(rig: Rig, agent: Agent, *, final: bool = False) -> None:
    number = rig.peer.open()
    agent.step(wait=0)
    rig.peer.complete(number, final=final)
    agent.step(wait=0)


def test_rounds_follow_one_another(rig: Rig) -> None:
    agent = rig.start()
    agent.step(wait=0)
    for _ in range(3):
        play_round(rig, agent)
    assert [row.state for row in agent.site.journal.rounds()] == [State.DONE] * 3
    assert rig.head_count(agent, "3") == 3.0
    assert Pointer(agent.site.models(STUDY)).current() == "3"


def test_the_last_version_is_trained_on_and_used(rig: Rig) -> None:
    agent = rig.start()
    agent.step(wait=0)
    play_round(rig, agent, final=True)
    assert agent.complete()
    assert Pointer(agent.site.models(STUDY)).current() == "1-local"
    assert rig.head_count(agent, "1-local") == 2.0


def test_run_until_complete_ends(rig: Rig) -> None:
    agent = rig.start()
    agent.step(wait=0)
    number = rig.peer.open()
    agent.step(wait=0)
    rig.peer.complete(number, final=True)
    rig.start().run(until_complete=True)


@pytest.mark.parametrize("said", ["accept = false", f'accept = true\ndigest = "{"0" * 64}"'])
def test_a_study_that_is_no_longer_accepted_is_declined(rig: Rig, said: str) -> None:
    agent = rig.start()
    agent.step(wait=0)
    play_round(rig, agent)
    rig.paths.settings.write_text(SETTINGS.replace("accept = true", said))
    rig.peer.open()
    agent = rig.start()
    agent.resume()
    agent.step(wait=0)
    assert [refusal.reasons for refusal in rig.peer.refusals] == [("study_not_accepted",)]
    assert rig.peer.manifests.keys() == {0}


def test_a_study_that_was_pinned_is_never_replaced(rig: Rig) -> None:
    agent = rig.start()
    agent.step(wait=0)
    site, pinned = agent.site, agent._studies[STUDY]
    kept = site.paths.studies / f"{STUDY}.json"
    before = kept.read_bytes()
    later = pinned.descriptor.model_copy(update={"created": pinned.descriptor.created + 1})
    signed = envelope.sign(later, rig.peer.operator)
    study = studies.verified(signed, site.link.trust, STUDY)
    with pytest.raises(IntegrityBroken, match="this site accepted"):
        studies.accept(study, signed, paths=site.paths, settings=site.settings, facts=site.facts)
    assert kept.read_bytes() == before


def test_a_study_whose_privacy_nothing_would_enforce_is_not_accepted(rig: Rig) -> None:
    agent = rig.start()
    agent.step(wait=0)
    site, pinned = agent.site, agent._studies[STUDY]
    promised = study_files.load(dumps(private_table()))
    study = studies.Study(pinned.descriptor)
    study.__dict__["file"] = promised  # what is parsed from the descriptor's bytes, once
    with pytest.raises(PolicyDenied, match=r"has \[privacy\], which this version cannot enforce"):
        studies.accept(study, b"", paths=site.paths, settings=site.settings, facts=site.facts)


def test_a_newer_root_document_is_followed_before_anything_else(rig: Rig) -> None:
    agent = rig.start()
    agent.step(wait=0)
    before = agent.site.link.trust.document.version
    rig.peer.publish_root(rig.peer.root.model_copy(update={"version": before + 1}))
    agent.step(wait=0)
    assert agent.site.link.trust.document.version == before + 1
    assert rig.start().site.link.trust.document.version == before + 1
    rig.peer.publish_root(rig.peer.root.model_copy(update={"version": before + 2}), rig.peer.signer)
    rig.peer.open()
    with pytest.raises(IntegrityBroken, match="next root document"):
        rig.start().step(wait=0)
    assert not rig.peer.manifests


def test_what_was_sealed_for_it_is_not_sent(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = rig.start()
    agent.step(wait=0)
    rig.peer.open()
    monkeypatch.setattr(delivery, "deliver", lambda *_: None)  # killed after sealing
    agent.step(wait=0)
    monkeypatch.undo()
    assert [row.state for row in agent.site.journal.rounds()] == [State.SEALED]
    rig.paths.settings.write_text(SETTINGS.replace("accept = true", "accept = false"))
    agent = rig.start()
    agent.resume()
    agent.step(wait=0)
    assert [row.state for row in agent.site.journal.rounds()] == [State.CLOSED]
    assert list(rig.paths.outbox.iterdir()) == []
    assert not rig.peer.manifests


def test_a_real_round_is_scored(rig: Rig) -> None:
    rig.learner_of = torch_learner(rig.paths)
    agent = rig.start()
    agent.step(wait=0)
    play_round(rig, agent, final=True)
    scores = json.loads(rig.paths.scores.read_text())[STUDY]
    assert sorted(scores) == ["0", "1", "1-local"]
    assert scores["1"]["n"] > 0
    assert sums_are_counts(rig)


def sums_are_counts(rig: Rig) -> bool:
    counts = rig.peer.opened(0)["prototypes"][:, -1]
    return bool(0 < counts.sum() <= 10)
