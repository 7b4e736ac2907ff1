"""The Merkle log on the store: entries appended inside the transaction of what they record.

Invariants: an entry, the head of the tree after it, and its effect are one transaction, so an action whose entry
cannot be written does not happen; the head lies in one row, so an append costs two writes whatever the log's size.
Receipts need only the peaks before their own entry (the path of the last leaf). Checkpoints are signed when asked
for, and kept until the log grows.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from secureproto.audit.checkpoint import Checkpoint, origin_of, sign
from secureproto.audit.entries import Event
from secureproto.audit.export import Logged
from secureproto.audit.log import Appended, LogHead
from secureproto.audit.merkle import inclusion_proof
from secureproto.audit.vocabulary import ClockSource
from secureproto.clock import Clock, seconds
from secureproto.crypto.keys import Signer
from secureproto.errors import IntegrityBroken
from secureproto_server.metrics import ServerMetrics
from secureproto_server.storage.records import AuditEntry, Meta
from secureproto_server.storage.store import Store, Transaction

HEAD = "log-head"
PAGE = 500  # entries read in one transaction: half a megabyte


@dataclass(frozen=True)
class Proved:
    """An entry just appended, with what proves it: the path to the root of the checkpoint that ends with it."""

    data: bytes
    sequence: int
    proof: tuple[str, ...]
    checkpoint: str


class Log:
    """The log of one federation's server."""

    def __init__(self, federation: str, signer: Signer, clock: Clock, metrics: ServerMetrics) -> None:
        self.origin = origin_of(federation)
        self._signer = signer
        self._clock = clock
        self._metrics = metrics
        self._cached: tuple[int, str] = (-1, "")
        self._lock = threading.Lock()

    def append(self, tx: Transaction, event: Event) -> Appended:
        """Add an entry.

        Raises:
            Unavailable: the clock is behind the last entry; the transaction must not be committed.
        """
        head, appended = _head(tx).append(event, time=seconds(self._clock), clock=ClockSource.SYSTEM)
        tx.insert(AuditEntry(appended.entry.sequence, appended.data, appended.leaf))
        tx.put(Meta(HEAD, _dump(head)))
        self._metrics.audit_appended(str(event.action), tree_size=head.size)
        return appended

    def append_proved(self, tx: Transaction, event: Event) -> Proved:
        """Add an entry and prove it. Raises: as `append`."""
        before = _head(tx)
        appended = self.append(tx, event)
        head, sequence = _head(tx), appended.entry.sequence
        nodes = dict(zip(_places(before.size), before.peaks, strict=True))
        # the last leaf's siblings are complete subtrees that end before it: the peaks of the tree before
        proof = inclusion_proof(sequence, head.size, lambda level, index: nodes[level, index])
        return Proved(appended.data, sequence, tuple(node.hex() for node in proof), self._sign(head))

    def checkpoint(self, store: Store) -> str:
        """The signed checkpoint of the whole log as it is now."""
        with store.transaction("read log head") as tx:
            head = _head(tx)
        with self._lock:
            if self._cached[0] != head.size:
                self._cached = (head.size, self._sign(head))
            return self._cached[1]

    def size(self, store: Store) -> int:
        """How many entries there are."""
        with store.transaction("read log head") as tx:
            return _head(tx).size

    def entries(self, store: Store, first: int, count: int) -> Iterator[Logged]:
        """Entries from `first` on, at most `count`, read in pages."""
        while count > 0:
            with store.transaction("read log") as tx:
                page = tx.select(AuditEntry, after=(first - 1,), limit=min(count, PAGE))
            yield from (Logged(row.data, row.leaf) for row in page)
            if len(page) < min(count, PAGE):
                return
            first, count = first + len(page), count - len(page)

    def _sign(self, head: LogHead) -> str:
        return sign(Checkpoint(self.origin, head.size, head.root), self._signer)


def _head(tx: Transaction) -> LogHead:
    row = tx.get(Meta, HEAD)
    if row is None:
        if tx.select(AuditEntry, limit=1):
            raise IntegrityBroken(
                "the audit log has entries and no head: the database was changed behind this program's back",
                hint="keep the state directory as it is for the auditor, and restore from a backup",
            )
        return LogHead()
    value = json.loads(row.value)
    return LogHead(value["size"], tuple(bytes.fromhex(peak) for peak in value["peaks"]), value["time"])


def _dump(head: LogHead) -> str:
    return json.dumps({"size": head.size, "peaks": [peak.hex() for peak in head.peaks], "time": head.time})


def _places(size: int) -> list[tuple[int, int]]:
    """(level, index) of the peaks of a tree of `size` leaves, leftmost first."""
    places: list[tuple[int, int]] = []
    begin = 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            places.append((level, begin >> level))
            begin += 1 << level
    return places
