"""A log's file and the files it is verified against, as an auditor has them on a disk, and what to tell of it."""

from collections.abc import Sequence
from pathlib import Path

from secureproto.audit import export
from secureproto.audit.checkpoint import MAX_NOTE_BYTES, parse_note
from secureproto.audit.export import LogBroken, SignedCheckpoint
from secureproto.audit.trust import LogTrust, read_root
from secureproto.audit.verify import Report, verify_records
from secureproto.clock import utc_text
from secureproto.errors import IntegrityBroken, Misconfigured
from secureproto.wire.limits import LIMITS


def inspect_file(log: Path, root: Path, checkpoints: Sequence[Path] = ()) -> tuple[LogTrust, Report]:
    """Verify the export `log` under a root document and kept checkpoints, each a file.

    Raises:
        IntegrityBroken: something does not hold (LogBroken where it is the log itself).
        Misconfigured: a file is not of the kind that was asked for.
    """
    trust = read_root(_read(root, LIMITS.root_document))
    kept = [_kept(path) for path in checkpoints]
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


def _kept(path: Path) -> str:
    """The checkpoint in a file: a bare note, or the last one of an earlier export."""
    with path.open("rb") as file:
        if file.read(1) == b"{":
            return _last_of_export(path)
    data = _read(path, MAX_NOTE_BYTES)
    try:
        parse_note(data.decode())
        return data.decode()
    except (UnicodeDecodeError, IntegrityBroken):
        raise _unsuitable(path) from None


def _last_of_export(path: Path) -> str:
    text = ""
    try:
        with path.open("rb") as file:
            for record in export.read(file):
                text = record.text if isinstance(record, SignedCheckpoint) else text
    except LogBroken:
        text = ""
    if not text:
        raise _unsuitable(path)
    return text


def _unsuitable(path: Path) -> Misconfigured:
    return Misconfigured(
        f"{path} holds no checkpoint", hint="give an earlier export of the log, or a checkpoint's own text"
    )


def _read(path: Path, limit: int) -> bytes:
    """The file, refused before it is read whole when it is too long."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Misconfigured(f"{path} is over {limit} bytes: not the file that was asked for")
    return data
