"""A log's file and the files it is verified against, as an auditor has them on a disk, and what to tell of it."""

from collections.abc import Sequence
from pathlib import Path

from secureproto.audit import export
from secureproto.audit.checkpoint import MAX_NOTE_BYTES
from secureproto.audit.trust import LogTrust, read_root
from secureproto.audit.verify import Report, verify_records
from secureproto.clock import utc_text
from secureproto.errors import IntegrityBroken
from secureproto.wire.limits import LIMITS


def inspect_file(log: Path, root: Path, checkpoints: Sequence[Path] = ()) -> tuple[LogTrust, Report]:
    """Verify the export `log` under a root document and kept checkpoints, each a file.

    Raises:
        IntegrityBroken: something does not hold (LogBroken where it is the log itself).
    """
    trust = read_root(_read(root, LIMITS.root_document))
    kept = [_text(path) for path in checkpoints]
    with log.open("rb") as file:
        records = export.read(file)
        return trust, verify_records(records, origin=trust.origin, keys=trust.keys, witnessed=kept)


def summary(trust: LogTrust, report: Report) -> dict[str, object]:
    """What was verified and under what, in the order in which a person reads it."""
    return {
        "log": report.origin,
        "root_document": trust.root_digest,
        "size": report.size,
        "root": report.root,
        "first": _when(report.first_time),
        "last": _when(report.last_time),
        "checkpoints": report.checkpoints,
        "witnessed": report.witnessed,
    }


def _when(time: int) -> str | None:
    return utc_text(time) if time >= 0 else None


def _text(path: Path) -> str:
    try:
        return _read(path, MAX_NOTE_BYTES).decode()
    except UnicodeDecodeError:
        raise IntegrityBroken(f"{path} is not a checkpoint: not text") from None


def _read(path: Path, limit: int) -> bytes:
    """The file, refused before it is read whole when it is too long."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise IntegrityBroken(f"{path} is over {limit} bytes: not the file that was asked for")
    return data
