"""RFC 6962, sections 2.1, 2.1.1 and 2.1.2, word for word: recursive, slow, and written without looking at ours."""

from collections.abc import Sequence
from hashlib import sha256


def tree_hash(data: Sequence[bytes]) -> bytes:
    """MTH(D[n])."""
    if not data:
        return sha256(b"").digest()
    if len(data) == 1:
        return sha256(b"\x00" + data[0]).digest()
    k = _k(len(data))
    return sha256(b"\x01" + tree_hash(data[:k]) + tree_hash(data[k:])).digest()


def path(m: int, data: Sequence[bytes]) -> list[bytes]:
    """PATH(m, D[n])."""
    if len(data) == 1:
        return []
    k = _k(len(data))
    if m < k:
        return [*path(m, data[:k]), tree_hash(data[k:])]
    return [*path(m - k, data[k:]), tree_hash(data[:k])]


def proof(m: int, data: Sequence[bytes]) -> list[bytes]:
    """PROOF(m, D[n])."""
    return _subproof(m, data, whole=True)


def _subproof(m: int, data: Sequence[bytes], *, whole: bool) -> list[bytes]:
    if m == len(data):
        return [] if whole else [tree_hash(data)]
    k = _k(len(data))
    if m <= k:
        return [*_subproof(m, data[:k], whole=whole), tree_hash(data[k:])]
    return [*_subproof(m - k, data[k:], whole=False), tree_hash(data[:k])]


def _k(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k
