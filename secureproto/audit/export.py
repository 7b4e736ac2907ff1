"""A log as a file: JSON Lines, one line an entry, one line a checkpoint behind the entries that it covers.

    {"entry":{"action":"server_started",…},"leaf":"<hex>"}
    {"checkpoint":"secureproto/v1/audit/heart\\n1\\n…"}

Invariants: a line has one form; an entry's bytes are cut out of the line, never written anew. `leaf` is the leaf
hash as it was stored when the entry was appended: it makes an edit show at its own line, and is not believed
otherwise (SPEC.md, The export).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from secureproto.audit.checkpoint import MAX_NOTE_BYTES
from secureproto.audit.entries import MAX_ENTRY_BYTES
from secureproto.errors import IntegrityBroken, Rejected
from secureproto.wire import canonical

ENTRY_HEAD = b'{"entry":'
ENTRY_TAIL = re.compile(rb',"leaf":"([0-9a-f]{64})"}\Z')
TAIL_BYTES = len(b',"leaf":""}') + 64
MAX_LINE_BYTES = 2 * MAX_NOTE_BYTES  # a checkpoint with every line end escaped; also bounds a reader's memory


class LogBroken(IntegrityBroken):
    """The log does not hold; `sequence` is the first sequence number that fails."""

    def __init__(self, sequence: int, what: str, *, hint: str = "") -> None:
        super().__init__(f"audit log: entry {sequence}: {what}", hint=hint)
        self.sequence = sequence


@dataclass(frozen=True)
class Logged:
    """One entry as the log holds it: canonical bytes, and the leaf hash stored beside them."""

    data: bytes
    leaf: bytes


@dataclass(frozen=True)
class SignedCheckpoint:
    """A checkpoint's signed text, not verified."""

    text: str


Record = Logged | SignedCheckpoint


def lines(records: Iterable[Record]) -> Iterator[bytes]:
    """The file's lines, each with its line end."""
    for record in records:
        if isinstance(record, Logged):
            yield b'%s%s,"leaf":"%s"}\n' % (ENTRY_HEAD, record.data, record.leaf.hex().encode())
        else:
            yield canonical.encode({"checkpoint": record.text}) + b"\n"


def read(file: BinaryIO) -> Iterator[Record]:
    """The records of a file, as they come; nothing is verified but the form of the lines.

    Raises:
        LogBroken: a line that `lines` would not have written.
    """
    entries = 0
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
        record = _parse(line)
        if record is None:
            raise LogBroken(entries, f"line {number} is neither a whole entry nor a whole checkpoint")
        entries += isinstance(record, Logged)
        yield record


def _parse(line: bytes) -> Record | None:
    if len(line) > MAX_LINE_BYTES or not line.endswith(b"\n"):
        return None
    content = line[:-1]
    tail = ENTRY_TAIL.search(content[-TAIL_BYTES:])
    if content.startswith(ENTRY_HEAD) and tail:
        data = content[len(ENTRY_HEAD) : -TAIL_BYTES]
        return Logged(data, bytes.fromhex(tail[1].decode())) if len(data) <= MAX_ENTRY_BYTES else None
    try:
        value = canonical.decode(content)
    except Rejected:
        return None
    text = value.get("checkpoint") if isinstance(value, dict) and len(value) == 1 else None
    return SignedCheckpoint(text) if isinstance(text, str) else None
