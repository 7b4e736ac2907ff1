"""`secureproto audit verify`: what it prints, and when it fails."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secureproto.audit.export import LogBroken, lines
from secureproto.cli.audit import verify
from secureproto.errors import IntegrityBroken, Misconfigured
from secureproto.wire.limits import LIMITS
from support.audit_logs import (
    OPERATOR,
    ORIGIN,
    SERVER,
    events,
    last_checkpoint,
    make_log,
    root_document,
)

RECORDS = make_log(events(9))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "log.jsonl").write_bytes(b"".join(lines(RECORDS)))
    (tmp_path / "root.json").write_bytes(root_document())
    (tmp_path / "kept.txt").write_text(last_checkpoint(RECORDS))
    return tmp_path


def run(files: Path, *more: str) -> Result:
    return CliRunner().invoke(
        verify, [str(files / "log.jsonl"), "--root", str(files / "root.json"), *more], standalone_mode=False
    )


def broken(result: Result) -> IntegrityBroken:
    assert isinstance(result.exception, IntegrityBroken)
    assert result.exception.exit_code == 6
    return result.exception


def unsuitable(result: Result) -> str:
    assert isinstance(result.exception, Misconfigured)
    assert result.exception.exit_code == 2
    return result.exception.message


def test_json(files: Path) -> None:
    result = run(files, "-o", "json", "--checkpoint", str(files / "kept.txt"))
    assert result.exception is None
    value = json.loads(result.stdout)
    assert value["log"] == ORIGIN
    assert (value["size"], value["checkpoints"], value["witnessed"]) == (9, 3, 1)
    assert (value["first"], value["last"]) == ("2026-09-21T14:13:20Z", "2026-09-21T14:13:28Z")
    assert value["actions"] == {"server_started": 1, "upload_accepted": 8}
    assert value["refusals"] == {}
    assert len(value["root"]) == len(value["root_document"]) == 64
    assert result.stderr == ""


def test_table(files: Path) -> None:
    result = run(files)
    assert result.exception is None
    assert "size" in result.stdout
    assert "upload_accepted  8" in result.stdout
    assert "no --checkpoint was given" in result.stderr


def test_a_broken_log_names_its_entry(files: Path) -> None:
    log = files / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"site-6", b"site-7"))
    error = broken(run(files))
    assert isinstance(error, LogBroken)
    assert error.sequence == 6


def test_a_cut_log_is_found_by_the_checkpoint_that_was_kept(files: Path) -> None:
    (files / "log.jsonl").write_bytes(b"".join(lines(RECORDS[:5])))
    assert run(files).exception is None
    assert "entry 4: missing" in broken(run(files, "--checkpoint", str(files / "kept.txt"))).message


def test_another_root(files: Path) -> None:
    (files / "root.json").write_bytes(root_document(log_key=OPERATOR))
    assert "not signed by a key that is known" in broken(run(files)).message


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"\xff", root_document(signed_by=SERVER), root_document()[:-2]],
    ids=["empty", "no_envelope", "not_text", "by_a_stranger", "truncated"],
)
def test_what_is_no_root_document(files: Path, data: bytes) -> None:
    (files / "root.json").write_bytes(data)
    assert "root" in broken(run(files)).message


def test_a_file_that_is_too_long_is_not_read_whole(files: Path) -> None:
    (files / "root.json").write_bytes(b"x" * (LIMITS.root_document + 1))
    assert f"root.json is over {LIMITS.root_document} bytes" in unsuitable(run(files))
    (files / "root.json").write_bytes(b"x" * LIMITS.root_document)
    assert "root document: " in broken(run(files)).message


def test_an_earlier_export_serves_as_what_was_kept(files: Path) -> None:
    (files / "earlier.jsonl").write_bytes((files / "log.jsonl").read_bytes())
    assert json.loads(run(files, "-o", "json", "--checkpoint", str(files / "earlier.jsonl")).stdout)["witnessed"] == 1
    (files / "log.jsonl").write_bytes(b"".join(lines(RECORDS[:5])))
    assert "entry 4: missing" in broken(run(files, "--checkpoint", str(files / "earlier.jsonl"))).message


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"words\n", b"{}\n", b"".join(lines(RECORDS))[:-3], b"x" * 100_000],
    ids=["empty", "not_text", "words", "no_log", "half_a_log", "too_long"],
)
def test_what_is_no_checkpoint_is_the_readers_mistake_and_no_alarm(files: Path, data: bytes) -> None:
    (files / "kept.txt").write_bytes(data)
    assert "kept.txt" in unsuitable(run(files, "--checkpoint", str(files / "kept.txt")))


def test_an_empty_file(files: Path) -> None:
    (files / "log.jsonl").write_bytes(b"")
    assert "no checkpoint covers it" in broken(run(files)).message


def test_an_empty_log_prints_no_times(files: Path) -> None:
    (files / "log.jsonl").write_bytes(b"".join(lines(make_log([]))))
    value = json.loads(run(files, "-o", "json").stdout)
    assert (value["size"], value["first"], value["last"]) == (0, None, None)
