"""The extractors that open rounds start from, kept opened: every upload of a round is compared with the same one.

Invariant: at most KEPT of them are in memory, the ones used last.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

KEPT = 2  # a round's base, and the next one's while the last uploads of the first are still checked

Tensors = Mapping[str, NDArray[Any]]


class Bases:
    """Tensors by the name of their blob. Blobs never change, so neither does an entry."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Tensors] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str, load: Callable[[], Tensors]) -> Tensors:
        """The tensors of a blob, loaded by one caller while the others wait."""
        with self._lock:
            if name not in self._known:
                self._known[name] = load()
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
            self._known.move_to_end(name)
            return self._known[name]
