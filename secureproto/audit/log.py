"""The writing side of the log, as a value: the head before an event, the head after it. No I/O.

Invariants: sequence numbers have no gaps; an entry's time is never before its predecessor's, except in the entry
that says that the clock was set back; the caller stores what `append` returns in the transaction of the effect
that it records, and drops the new head when that transaction fails.
"""

from dataclasses import dataclass

from secureproto.audit.entries import Entry, Event
from secureproto.audit.merkle import CompactRange, NodeReader, leaf_hash, peaks_of
from secureproto.audit.vocabulary import Action, ClockSource
from secureproto.errors import Unavailable


@dataclass(frozen=True)
class Appended:
    """What to store of one append."""

    entry: Entry
    data: bytes  # canonical bytes, the leaf
    nodes: tuple[
        bytes, ...
    ]  # complete nodes made, by level: node i is (i, sequence >> i); the first is the leaf hash

    @property
    def leaf(self) -> bytes:
        """The entry's leaf hash."""
        return self.nodes[0]


@dataclass(frozen=True)
class LogHead:
    """Where the log ends: its size, the peaks of its tree, the time of its last entry."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()
    time: int = 0

    @classmethod
    def load(cls, size: int, time: int, read: NodeReader) -> "LogHead":
        """The head of a stored log of `size` entries whose last has this time."""
        return cls(size, peaks_of(size, read), time)

    @property
    def root(self) -> bytes:
        """Root of the tree."""
        return CompactRange(self.size, self.peaks).root

    def append(self, event: Event, *, time: int, clock: ClockSource) -> tuple["LogHead", Appended]:
        """The head after `event`, and what to store.

        Raises:
            Unavailable: the clock is behind the last entry. An action that cannot be logged is refused.
        """
        if not in_order(self.time, time, event.action):
            raise Unavailable(
                f"the clock is {self.time - time} s behind the audit log's last entry",
                hint="set the clock right; the log takes no entry that would be older than the one before it",
            )
        entry = Entry.of(event, sequence=self.size, time=time, clock=clock)
        data = entry.canonical()
        tree = CompactRange(self.size, self.peaks)
        nodes = tuple(tree.append(leaf_hash(data)))
        return LogHead(tree.size, tree.peaks, time), Appended(entry, data, nodes)


def in_order(before: int, time: int, action: Action) -> bool:
    """Whether an entry of this time and action may follow one of the time `before`."""
    return time >= before or action is Action.CLOCK_SET_BACK
