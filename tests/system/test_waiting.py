"""An operator who waits for rounds is not told an error because the server was started again meanwhile."""

import json
import threading
from pathlib import Path

import pytest

from secureproto.cli.root import run
from secureproto_client.demo.stage import free_ports
from support.federation import Federation, federation
from support.rounds import answer
from support.sim_study import SimStudy

pytestmark = pytest.mark.system


def killed_started_and_answered(fed: Federation, study: SimStudy) -> None:
    fed.until(lambda: fed.sites["alpha"].poll().invitations)
    fed.kill()
    fed.start()
    answered_by_both(fed, study)


def test_rounds_that_did_not_complete_are_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with federation(tmp_path) as fed:
        monkeypatch.setenv("SECUREPROTO_OPERATOR_ADMIN_URL", f"https://127.0.0.1:{fed.ports['admin']}")
        for name in ("alpha", "beta"):
            fed.enrol(name)
        study = fed.create_study(SimStudy(quorum=2, total=1))
        desk = ["--operator", str(fed.directory / "operator"), "-o", "json"]
        opened = threading.Thread(target=abort_when_open, args=(fed,))
        opened.start()
        assert run(["round", "open", "small", "--wait", "--timeout", "60", *desk]) == 8
        opened.join()
        assert "1 of 1 rounds did not complete: round 0 aborted" in capsys.readouterr().err
        both = threading.Thread(target=answered_by_both, args=(fed, study))
        both.start()
        assert run(["round", "open", "small", "--wait", "--timeout", "60", *desk]) == 0
        both.join()
        assert "study small is completed with version 1" in capsys.readouterr().err
        assert [entry["reason"] for entry in fed.audit() if entry["action"] == "model_released"] == ["agreed_rounds"]


def abort_when_open(fed: Federation) -> None:
    fed.until(lambda: fed.sites["alpha"].poll().invitations)
    fed.desk.post("studies/small/rounds/0/abort", {"reason": "test"}, meaning="abort")


def answered_by_both(fed: Federation, study: SimStudy) -> None:
    fed.until(lambda: fed.sites["alpha"].poll().invitations)
    for seed, name in enumerate(("alpha", "beta")):
        answer(fed.sites[name], study, seed)


def test_waiting_outlives_a_kill_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("SECUREPROTO_OPERATOR_ADMIN_URL", f"https://127.0.0.1:{port}")
    with federation(tmp_path, start=False) as fed:
        fed.environment["SECUREPROTO_SERVER_ADMIN__PORT"] = str(port)
        fed.start()
        for name in ("alpha", "beta"):
            fed.enrol(name)
        study = fed.create_study(SimStudy(quorum=2))
        meanwhile = threading.Thread(target=killed_started_and_answered, args=(fed, study))
        meanwhile.start()
        desk = ["--operator", str(fed.directory / "operator"), "-o", "json"]
        code = run(["round", "open", "small", "--wait", "--timeout", "60", *desk])
        meanwhile.join()
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert [(end["round"], end["outcome"]) for end in json.loads(printed.out)] == [(0, "completed")]
