"""The two seams of the ledger: where it is kept (`Ledger`), and who computes what it costs (`Gate`).

A ledger holds one chain and knows its state. It keeps these promises, which `tests/contract/test_ledger.py` checks:
- `append` returns after the entry is durable; when it raises, nothing was appended, or nothing more can be;
- an entry that `State.after` refuses is never appended, and no entry is ever changed or removed;
- `state` is what the entries say, at all times, after reopening too.
"""

from typing import Protocol

from secureproto.privacy.events import Composition
from secureproto.privacy.ledger.entries import Entry
from secureproto.privacy.ledger.state import State


class Ledger(Protocol):
    """One data set's ledger."""

    @property
    def state(self) -> State:
        """Where the ledger stands."""
        ...

    def append(self, entry: Entry) -> State:
        """Add an entry, durably; the state after it.

        Raises:
            IntegrityBroken, Conflict, ApprovalNeeded: as `State.after`.
            Unavailable: it cannot be written now.
        """
        ...

    def entries(self) -> tuple[Entry, ...]:
        """All entries, in order."""
        ...

    def find(self, head: str) -> bool:
        """Whether an entry of this digest was ever the head, here or in what was imported."""
        ...

    def close(self) -> None:
        """Let go of what is held. What was appended stays."""
        ...


class Gate(Protocol):
    """One cap, and the accountant that watches it."""

    def fits(self, spent: Composition, more: Composition) -> bool:
        """Whether `more` may still be released after `spent`."""
        ...

    def epsilon(self, spent: Composition) -> float:
        """What `spent` costs; infinite when something in it is unprotected."""
        ...
