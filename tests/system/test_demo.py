"""`secureproto demo` as JSON: real processes, every attempt refused, every claim of its output checked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from secureproto.cli.root import run
from secureproto_client.demo.comparison import LOCAL, METHODS, TUNED

pytestmark = pytest.mark.system
HOSPITALS = {"cleveland", "hungary", "switzerland", "long-beach"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def shown(out: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "secureproto.cli", "demo", "--out", str(out), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert "round 30 of 30 completed" in done.stderr
    return json.loads(done.stdout)


def test_four_hospitals_completed_every_round(shown: Any) -> None:
    assert set(shown["sites"]) == HOSPITALS
    assert shown["rounds_completed"] == 30
    assert shown["uploads"] == {"accepted": 120, "rejected": 4}
    assert shown["receipts"] == {"unprotected": 120}
    assert shown["protection"] == "unprotected"


def test_every_attempt_was_refused_for_its_own_reason(shown: Any) -> None:
    assert [attempt["reason"] for attempt in shown["attempts"]] == [
        "bad_signature",
        "unknown_key",
        "wrong_round",
        "replayed",
    ]
    assert shown["refusals"] == {"bad_signature": 1, "unknown_key": 1, "wrong_round": 1, "replayed": 1}


def test_joining_pays_on_average_and_the_numbers_are_scores(shown: Any) -> None:
    for by_method in shown["sites"].values():
        assert set(by_method) == set(METHODS)
        for scores in by_method.values():
            assert all(value is None or 0.0 <= value <= 1.0 for value in scores.values())
    assert shown["accuracies"][TUNED] > shown["accuracies"][LOCAL]
    assert shown["test_rows"] == {"cleveland": 104, "hungary": 89, "switzerland": 16, "long-beach": 45}


def test_the_log_it_left_verifies_and_an_edited_one_does_not(shown: Any, out: Path, tmp_path: Path) -> None:
    log, root = out / "audit-log.jsonl", out / "federation" / "operator" / "root.json"
    assert run(["audit", "verify", str(log), "--root", str(root)]) == 0
    assert shown["audit"]["size"] == sum(b'"entry"' in line[:12] for line in log.read_bytes().splitlines())
    edited = tmp_path / "edited.jsonl"
    edited.write_bytes(log.read_bytes().replace(b"upload_accepted", b"upload_rejected", 1))
    assert run(["audit", "verify", str(edited), "--root", str(root)]) == 6


def test_what_it_tells_to_type_works_without_the_server(shown: Any, out: Path, capsys: Any) -> None:
    site = out / "sites" / "cleveland"
    assert run(["client", "model", "list", str(site)]) == 0
    assert "30-local" in capsys.readouterr().out
    assert run(["client", "predict", str(site), "--input", str(site / "patients.csv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == shown["predicted"]["cleveland"] + 1 > 300


def test_what_is_compared_by_telephone_is_shown_until_it_is_decided(shown: Any, out: Path) -> None:
    for hospital in HOSPITALS:
        log = (out / "logs" / f"{hospital}.log").read_text()
        # enrolled in two runs: before the approval and after it
        assert (log.count("$ secureproto client enroll"), log.count("\nfingerprint: ")) == (2, 1)


def test_no_process_is_left_and_no_plaintext_is_on_the_servers_disk(shown: Any, out: Path) -> None:
    import psutil

    commands = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    assert not [command for command in commands if str(out) in command]
    blobs = [path for path in (out / "federation" / "server" / "state").rglob("*") if path.is_file()]
    assert blobs
    # every plaintext body of the protocol begins with a header that names its first tensor
    assert not [path for path in blobs if b'"prototypes":{"dtype"' in path.read_bytes()]


def test_a_directory_in_use_is_refused(shown: Any, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--out", str(out)]) == 7
    assert "is not empty" in capsys.readouterr().err
