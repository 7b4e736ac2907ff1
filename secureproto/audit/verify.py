"""Verifying a whole log offline: no server, no network, nothing but the records and the log's public keys.

Procedure (the blocks below carry these numbers):
 1. Each entry: its bytes are an entry in canonical form, hash to the leaf hash that stands beside them,
    carry the next sequence number, and are not older than the entry before.
 2. Each checkpoint: signed by a key of this log, covers exactly the entries before it, has their root.
 3. Each checkpoint that the verifier brought itself (from a receipt, a site, an earlier audit): signed by a key of
    this log, and its root is that of the same prefix of this log.
 4. At the end: the last checkpoint covers the last entry, and no checkpoint of step 3 covers more than there is.

What the caller owes: the keys come from a root document got by a way that the server does not control; step 3 is
the only one that finds an end cut off at an older checkpoint, or a second history that the server itself signed.

Every failure is a LogBroken that names the first sequence number that fails. Where an edit was made with the leaf
hash redone as well, that is the first entry after the last checkpoint that holds: more cannot be known.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from secureproto.audit import checkpoint as notes
from secureproto.audit.checkpoint import Checkpoint
from secureproto.audit.entries import Entry
from secureproto.audit.export import LogBroken, Logged, Record, SignedCheckpoint
from secureproto.audit.log import in_order
from secureproto.audit.merkle import CompactRange, leaf_hash
from secureproto.audit.vocabulary import Action
from secureproto.crypto.keys import PublicKey
from secureproto.errors import IntegrityBroken, Rejected


@dataclass(frozen=True)
class Report:
    """What was verified. Times are seconds since the epoch, -1 in an empty log."""

    origin: str
    size: int
    root: str  # hex
    first_time: int
    last_time: int
    checkpoints: int  # in the log
    witnessed: int  # that the verifier brought
    actions: Mapping[str, int]  # entries by action
    refusals: Mapping[str, int]  # rejected uploads by reason


def verify_records(
    records: Iterable[Record],
    *,
    origin: str,
    keys: Mapping[str, PublicKey],
    witnessed: Sequence[str] = (),
) -> Report:
    """Verify a log as `export.read` gives it, in one pass; `witnessed` are signed checkpoints that the caller kept.

    Raises:
        LogBroken: it does not hold; names the first sequence number that fails.
        IntegrityBroken: a checkpoint in `witnessed` is not one of this log.
    """
    kept = [notes.verify(text, origin, keys=keys) for text in witnessed]
    verification = _Verification(origin, keys, kept)
    for record in records:
        if isinstance(record, Logged):
            verification.entry(record)
        else:
            verification.checkpoint(record)
    return verification.finish()


def verify_log(
    entries: Iterable[bytes], checkpoint_text: str, *, origin: str, keys: Mapping[str, PublicKey]
) -> Report:
    """Verify bare entries under one checkpoint: with no stored leaf hashes, an edit is found but not placed.

    Raises: as `verify_records`.
    """

    def records() -> Iterable[Record]:
        for data in entries:
            yield Logged(data, leaf_hash(data))
        yield SignedCheckpoint(checkpoint_text)

    return verify_records(records(), origin=origin, keys=keys)


class _Verification:
    """One pass over a log. `_sealed` entries are covered by a checkpoint that holds, `_agreed` by a kept one."""

    def __init__(self, origin: str, keys: Mapping[str, PublicKey], kept: Sequence[Checkpoint]) -> None:
        self._origin = origin
        self._keys = keys
        self._kept = sorted(kept, key=lambda checkpoint: checkpoint.size)
        self._next_kept = 0
        self._tree = CompactRange()
        self._sealed = 0
        self._agreed = 0
        self._checkpoints = 0
        self._fork: LogBroken | None = None
        self._first_time = self._last_time = -1
        self._actions: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._compare_kept()

    def entry(self, record: Logged) -> None:  # 1
        place = self._tree.size
        leaf = leaf_hash(record.data)
        entry = _parse(record.data, place)
        _check_sequence(entry.sequence, place)
        if leaf != record.leaf:
            raise LogBroken(place, "its bytes are not those that were hashed when it was written: it was changed")
        if not in_order(self._last_time, entry.time, entry.action):
            raise LogBroken(place, "it is older than the entry before it")
        self._tree.append(leaf)
        self._count(entry)
        self._compare_kept()

    def checkpoint(self, record: SignedCheckpoint) -> None:  # 2
        size = self._tree.size
        try:
            checkpoint = notes.verify(record.text, self._origin, keys=self._keys)
        except IntegrityBroken as error:
            raise LogBroken(self._sealed, f"the next checkpoint does not verify ({error.message})") from None
        if checkpoint.size > size:
            raise LogBroken(size, f"missing: the next checkpoint covers {checkpoint.size} entries")
        if checkpoint.size < size:
            raise LogBroken(checkpoint.size, f"stands before the checkpoint of {checkpoint.size} entries")
        if checkpoint.root != self._tree.root:
            raise LogBroken(
                self._sealed, f"it or one up to entry {size - 1} is not what was signed at {size} entries"
            )
        if self._fork:
            raise self._fork
        self._sealed = size
        self._checkpoints += 1

    def finish(self) -> Report:  # 4
        size = self._tree.size
        if self._checkpoints == 0 or self._sealed < size:
            raise LogBroken(
                self._sealed,
                "no checkpoint covers it: the end of the log is missing, or something was added",
                hint="export again: a whole export ends with a checkpoint over all its entries",
            )
        if self._next_kept < len(self._kept):
            covered = self._kept[-1].size
            raise LogBroken(size, f"missing: the checkpoint that you brought covers {covered} entries")
        return Report(
            origin=self._origin,
            size=size,
            root=self._tree.root.hex(),
            first_time=self._first_time,
            last_time=self._last_time,
            checkpoints=self._checkpoints,
            witnessed=len(self._kept),
            actions=dict(sorted(self._actions.items())),
            refusals=dict(sorted(self._refusals.items())),
        )

    def _compare_kept(self) -> None:  # 3
        while self._next_kept < len(self._kept) and self._kept[self._next_kept].size == self._tree.size:
            kept = self._kept[self._next_kept]
            self._next_kept += 1
            if kept.root == self._tree.root:
                self._agreed = kept.size
            elif self._fork is None:
                # Said only once the log's own next checkpoint holds: if it does not, the log was edited instead.
                self._fork = LogBroken(
                    self._agreed,
                    f"it or one up to entry {kept.size - 1} is not what the checkpoint that you brought covers: "
                    "two histories under one signature, a fork",
                )

    def _count(self, entry: Entry) -> None:
        if self._first_time < 0:
            self._first_time = entry.time
        self._last_time = entry.time
        self._actions[entry.action.value] += 1
        if entry.action is Action.UPLOAD_REJECTED:
            self._refusals[entry.reason] += 1


def _parse(data: bytes, place: int) -> Entry:
    try:
        return Entry.parse(data)
    except Rejected as error:
        raise LogBroken(place, f"it is no entry ({error.message})") from None


def _check_sequence(sequence: int, place: int) -> None:
    """Which number fails when a place holds another than its own."""
    if sequence > place:
        raise LogBroken(place, f"missing: entry {sequence} stands in its place")
    if sequence == place - 1:
        raise LogBroken(sequence, "there are two entries with this number")
    if sequence < place:
        raise LogBroken(place, f"entry {sequence} stands in its place")
