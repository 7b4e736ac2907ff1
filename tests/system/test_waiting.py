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
