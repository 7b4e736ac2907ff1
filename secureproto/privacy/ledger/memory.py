"""A ledger in memory: for simulations and rehearsals, whose releases never leave the process."""

from secureproto.privacy.ledger.entries import Entry, Opened, writable
from secureproto.privacy.ledger.state import State, heads_of


class MemoryLedger:
    """The `Ledger` that ends with its process. Never for what leaves a site."""

    def __init__(self, opened: Opened) -> None:
        """Begin with its first entry. Raises IntegrityBroken: it is not a first one."""
        self._entries: list[Entry] = [opened]
        self._state = State.begin(opened)
        self._heads = heads_of(opened)

    @property
    def state(self) -> State:
        return self._state

    def append(self, entry: Entry) -> State:
        state = self._state.after(entry)
        writable(entry)
        self._state = state
        self._entries.append(entry)
        self._heads |= heads_of(entry)
        return self._state

    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def find(self, head: str) -> bool:
        return head in self._heads

    def close(self) -> None:
        return None
