"""The server as a process: how it starts, what it refuses to start with, how it ends, what it loads."""

import threading
import time
from pathlib import Path

import httpx
import pytest

from secureproto.wire.messages import StudyKnown
from support.federation import Federation, federation
from support.rounds import answer
from support.sim_study import SimStudy

pytestmark = pytest.mark.system


def failed_start(fed: Federation, *arguments: str) -> str:
    """Start a server that must not come up; what it says."""
    with pytest.raises(AssertionError, match="the server ended"):
        fed.start(*arguments)
    assert fed.process is not None
    code = fed.process.wait()
    fed.process = None
    return f"{code}: {fed.log().strip().splitlines()[-2:]}"


def test_it_serves_a_round_without_torch_and_ends_at_once_with_polls_waiting(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha = fed.enrol("alpha")
        study = fed.create_study(SimStudy(quorum=1))
        fed.open_rounds()
        answer(alpha, study, 1)
        fed.until_ended(0)
        assert fed.process is not None
        maps = Path(f"/proc/{fed.process.pid}/maps").read_text()
        assert "torch" not in maps
        known = StudyKnown(study="small", answered_round=0, version=1, outcome_round=0)
        waiting = threading.Thread(target=alpha.poll, args=(known,), kwargs={"wait": 20})
        waiting.start()
        time.sleep(0.3)
        begun = time.monotonic()
        assert fed.stop() == 0
        waiting.join()
        assert time.monotonic() - begun < 5
        fed.start()
        actions = [entry["action"] for entry in fed.audit(2)]
        assert actions == ["server_stopped", "server_started"]


def test_metrics_and_health_are_plain_and_say_what_happened(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha = fed.enrol("alpha")
        study = fed.create_study(SimStudy(quorum=1))
        fed.open_rounds()
        answer(alpha, study, 1)
        fed.until_ended(0)
        health = f"http://127.0.0.1:{fed.ports['health']}"
        assert httpx.get(f"{health}/live").status_code == 200
        assert httpx.get(f"{health}/ready").json() == {"status": "ok"}
        assert httpx.get(f"{health}/other").status_code == 404
        url = f"http://127.0.0.1:{fed.ports['metrics']}/metrics"
        fed.until(lambda: 'rounds_total{outcome="completed",study="small"} 1.0' in httpx.get(url).text)
        text = httpx.get(url).text
        assert 'secureproto_uploads_total{result="accepted",site="alpha"} 1.0' in text
        assert 'secureproto_upload_rejections_total{reason="replayed",site="alpha"} 0.0' in text
        assert 'secureproto_sites{state="active"} 1.0' in text
        assert 'route="/v1/studies/{study}/rounds/{round}/manifest"' in text
        size = fed.desk.get("status", meaning="look")["log_size"]
        assert f"secureproto_audit_tree_size {float(size)}" in text


def test_what_it_does_not_start_with(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        site = fed.enrol("alpha")
        first, fed.process = fed.process, None
        assert first is not None
        assert "2: ['error: site port 127.0.0.1" in failed_start(fed)  # the port is in use
        fed.sites.clear()
        assert "is in use by process" in failed_start(fed)
        fed.process = first
        fed.stop()
        passphrase = fed.credentials / "server"
        passphrase.chmod(0o644)
        assert "can be read by other users" in failed_start(fed)
        passphrase.chmod(0o600)
        kept = passphrase.read_bytes()
        passphrase.write_text("wrong\n")
        assert "does not open" in failed_start(fed)
        passphrase.write_bytes(kept)
        config = fed.directory / "server/server.toml"
        config.write_text("colour = 1\n" + config.read_text())
        assert "colour: unknown key" in failed_start(fed)
        config.write_text(config.read_text().removeprefix("colour = 1\n"))
        fed.sites["alpha"] = site
        fed.start()
        assert site.poll().site == "alpha"


def test_a_clock_that_is_off_needs_a_person(tmp_path: Path) -> None:
    import sqlite3

    def move_mark(by: int) -> None:
        with sqlite3.connect(fed.state / "server.db") as connection:
            connection.execute(
                "UPDATE sp_meta SET value = CAST(value AS INTEGER) + ? WHERE key = 'clock-high-water'", (by,)
            )

    with federation(tmp_path) as fed:
        fed.stop()
        move_mark(-3600)
        assert "--accept-clock-forward" in failed_start(fed)
        fed.start("--accept-clock-forward")
        assert [entry["action"] for entry in fed.audit(2)] == ["clock_jumped", "server_started"]
        fed.stop()
        move_mark(3600)
        assert "behind the last time this server signed" in failed_start(fed, "--accept-clock-forward")
