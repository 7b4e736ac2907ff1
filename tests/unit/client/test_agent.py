"""A site's whole life in one process: enrolment, rounds, versions, local training, refusals."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from secureproto_client.agent import Agent
from secureproto_client.journal import State
from secureproto_client.pointer import Pointer
from support.site_peer import STUDY, Peer
from support.site_rig import Rig, enrolled, torch_learner


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
