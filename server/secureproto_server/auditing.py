"""Reading the running server's log at the operator's desk."""

import io
from pathlib import Path
from typing import Any

from secureproto.audit import export
from secureproto.audit.entries import Entry
from secureproto.clock import utc_text
from secureproto.errors import Conflict
from secureproto_server.desk import Desk

PAGE = 5_000  # entries a request: a few megabytes


def tail(desk: Desk, count: int) -> list[dict[str, Any]]:
    """The log's last entries, oldest first, as plain records."""
    size = desk.get("status", meaning="ask for the log's size")["log_size"]
    first = max(0, size - count)
    return [_shown(Entry.parse(logged.data)) for logged in _entries(desk, first, size - first)]


def export_log(desk: Desk, out: Path) -> dict[str, Any]:
    """Write every entry, and the checkpoint that covers exactly these, to a file of `secureproto.audit.export`.

    Raises:
        Conflict: the file is there already.
    """
    if out.exists():
        raise Conflict(f"{out} is there already", hint="name another file")
    checkpoint = desk.request("GET", "audit/checkpoint", b"", meaning="fetch the log's checkpoint").decode()
    size = int(checkpoint.split("\n")[1])
    draft = out.with_name(f".{out.name}.part")
    with draft.open("wb") as file:
        for first in range(0, size, PAGE):
            file.write(_page(desk, first, min(PAGE, size - first)))
        file.writelines(export.lines([export.SignedCheckpoint(checkpoint)]))
    draft.replace(out)
    return {"entries": size, "file": str(out)}


def _entries(desk: Desk, first: int, count: int) -> list[export.Logged]:
    if count == 0:
        return []
    records = export.read(io.BytesIO(_page(desk, first, count)))
    return [record for record in records if isinstance(record, export.Logged)]


def _page(desk: Desk, first: int, count: int) -> bytes:
    return desk.request("GET", f"audit/{first}/{count}", b"", meaning="read the audit log")


def _shown(entry: Entry) -> dict[str, Any]:
    return {
        "sequence": entry.sequence,
        "time": utc_text(entry.time),
        "actor": entry.actor,
        "action": str(entry.action),
        "result": str(entry.result),
        "object": entry.object,
        "study": entry.study,
        "round": entry.round if entry.round >= 0 else None,
        "reason": entry.reason,
    }
