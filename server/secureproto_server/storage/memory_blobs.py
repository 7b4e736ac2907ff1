"""Blobs in memory: the contract of `blobs`, not durable. For simulations and tests."""

import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from secureproto.errors import NotFound, SecureProtoError
from secureproto_server.storage.blobs import CHUNK, Names, Quota, Spool, require_name, require_offset


class MemorySpool:
    """A blob being received, in a byte array."""

    def __init__(self, store: "MemoryBlobs", name: str) -> None:
        self._store = store
        self._name = name
        self._ended = False

    @property
    def length(self) -> int:
        return len(self._store.spools.get(self._name, b""))

    def write(self, offset: int, chunk: bytes) -> None:
        self._require_going_on()
        require_offset(offset, self.length)
        try:
            self._store.quota.add(len(chunk))
        except SecureProtoError:
            self.discard()
            raise
        self._store.spools.setdefault(self._name, bytearray()).extend(chunk)

    def chunks(self) -> Iterator[bytes]:
        data = bytes(self._store.spools.get(self._name, b""))
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]

    def finish(self) -> None:
        self._require_going_on()
        self._store.quota.remove(len(self._store.blobs.get(self._name, b"")))
        self._store.blobs[self._name] = bytes(self._store.spools.pop(self._name, b""))
        self._ended = True

    def discard(self) -> None:
        if not self._ended:
            self._store.quota.remove(len(self._store.spools.pop(self._name, b"")))
            self._ended = True

    def _require_going_on(self) -> None:
        if self._ended:
            raise ValueError("the spool was finished or discarded")


class MemoryBlobs:
    """Blobs in dictionaries."""

    def __init__(self, *, quota: int | None = None) -> None:
        self.blobs: dict[str, bytes] = {}
        self.spools: dict[str, bytearray] = {}
        self.quota = Quota(quota)
        self._names = Names()

    @contextmanager
    def spool(self, name: str) -> Iterator[Spool]:
        self._names.take(require_name(name))
        try:
            yield MemorySpool(self, name)
        finally:
            self._names.release(name)

    def open(self, name: str) -> BinaryIO:
        if require_name(name) not in self.blobs:
            raise NotFound(f"there is no blob {name}")
        return io.BytesIO(self.blobs[name])

    def size(self, name: str) -> int | None:
        data = self.blobs.get(require_name(name))
        return None if data is None else len(data)

    def delete(self, name: str) -> None:
        require_name(name)
        for place in (self.blobs, self.spools):
            self.quota.remove(len(place.pop(name, b"")))

    def sweep(self, keep: Collection[str]) -> list[str]:
        orphans = sorted(name for name in {*self.blobs, *self.spools} if name not in keep and name not in self._names)
        for name in orphans:
            self.delete(name)
        return orphans
