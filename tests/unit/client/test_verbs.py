"""The verbs beside `run`: predict, status, rehearse, stop."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secureproto.errors import (
    Conflict,
    NotFound,
)
from secureproto_client import predict, rehearse, status, stopping
from secureproto_client.agent import Agent
from secureproto_client.journal import State
from support.site_peer import SITE, STUDY, Peer
from support.site_rig import RECORDS, Rig, enrolled, with_records


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


def test_predict_carries_ids_through(rig: Rig) -> None:
    agent = with_records(rig, RECORDS)
    agent.step(wait=0)
    found = predict.predict(rig.paths, rig.root / "patients.csv")
    assert found.names == tuple(f"p{i}" for i in range(1, 11))
    text = predict.write(found, "csv").splitlines()
    assert text[0] == "id,class,p_no,p_yes"
    assert len(text) == 11
    assert '"model": "0"' in predict.write(found, "json")
    with pytest.raises(NotFound, match="study other"):
        predict.predict(rig.paths, rig.root / "patients.csv", study="other")
    with pytest.raises(NotFound, match="no model 7"):
        predict.predict(rig.paths, rig.root / "patients.csv", model="7")


def test_status_and_rehearsal(rig: Rig) -> None:
    with pytest.raises(NotFound, match="no model here yet"):
        status.model_rows(rig.paths)
    agent = with_records(rig, RECORDS)
    agent.step(wait=0)
    shown = status.status(rig.paths)
    assert (shown["site"], shown["root_version"], shown["running"]) == (SITE, 2, None)
    assert shown["last_contact"] == "2026-09-21T14:13:20Z"
    assert {"what": "site", "is": SITE} in status.flat(shown)
    assert status.model_rows(rig.paths, STUDY)[0]["in_use"] is True
    rehearsal = rehearse.rehearse(agent.site, agent._studies[STUDY])
    assert rehearsal.training_records + rehearsal.held_out_records == 10
    assert rehearsal.left_out_records == 0
    assert rehearsal.upload_bytes > 0
    assert rows(agent) == []


def test_one_client_a_directory(rig: Rig) -> None:
    assert stopping.running(rig.paths) is None
    with pytest.raises(NotFound, match="no client runs"):
        stopping.stop(rig.paths)
    with stopping.only_client(rig.paths):
        assert stopping.running(rig.paths) is not None
        with pytest.raises(Conflict, match="another client runs"), stopping.only_client(rig.paths):
            pass
    assert stopping.running(rig.paths) is None
