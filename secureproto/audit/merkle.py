"""The Merkle tree of RFC 6962, section 2.1, over leaf hashes: bytes in, bytes out, no I/O.

Invariants: the root depends on every leaf and on their order; leaves and inner nodes are hashed under different
prefixes, so that no node can pass for a leaf; a tree of size n commits to each of its prefixes.

A *complete* node (level, index) covers the leaves `index << level` up to `(index + 1) << level`, all of them
there. Complete nodes never change once made: they are what a log stores (two for each entry), and all that a
proof needs.

Proofs are made as RFC 6962, sections 2.1.1 and 2.1.2, defines them, and checked as RFC 9162, sections 2.1.3.2 and
2.1.4.2, says.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256

from secureproto.errors import IntegrityBroken

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()

NodeReader = Callable[[int, int], bytes]
"""(level, index) -> hash of that complete node; asked only for nodes that are complete at the size in question."""


def leaf_hash(data: bytes) -> bytes:
    """Hash of one entry's bytes."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node over its two children."""
    return sha256(b"\x01" + left + right).digest()


class CompactRange:
    """The right edge of a tree: enough to append to it and to know its root, in log2(size) hashes.

    `peaks` are the roots of the maximal complete subtrees, largest (leftmost) first: one for each bit of `size`.
    """

    __slots__ = ("_peaks", "_size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        """An empty tree, or one of `size` leaves with these peaks (ValueError when they cannot belong together)."""
        if size < 0 or len(peaks) != size.bit_count() or any(len(peak) != HASH_BYTES for peak in peaks):
            raise ValueError("as many peaks of 32 bytes as the size has bits")
        self._size = size
        self._peaks = list(peaks)

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self._size

    @property
    def peaks(self) -> tuple[bytes, ...]:
        """Roots of the maximal complete subtrees, leftmost first."""
        return tuple(self._peaks)

    def append(self, leaf: bytes) -> list[bytes]:
        """Add a leaf hash; the complete nodes that it made, by level from 0 (the leaf itself).

        The node of level i has index `(size before) >> i`.
        """
        made = [leaf]
        node, bits = leaf, self._size
        while bits & 1:
            node = sha256(b"\x01" + self._peaks.pop() + node).digest()
            made.append(node)
            bits >>= 1
        self._peaks.append(node)
        self._size += 1
        return made

    @property
    def root(self) -> bytes:
        """Merkle tree hash of all leaves."""
        return _fold(self._peaks)


def peaks_of(size: int, read: NodeReader) -> tuple[bytes, ...]:
    """The peaks of the tree of `size` leaves, read from its complete nodes."""
    return tuple(read(level, index) for level, index in _cover(0, size))


def root_of(size: int, read: NodeReader) -> bytes:
    """Merkle tree hash of the first `size` leaves."""
    return _subtree(0, size, read)


def stored_leaves(leaves: Sequence[bytes]) -> NodeReader:
    """A reader for a log that keeps only its leaf hashes: each node costs as many hashes as it has leaves."""

    def read(level: int, index: int) -> bytes:
        nodes = list(leaves[index << level : (index + 1) << level])
        if len(nodes) != 1 << level:
            raise ValueError(f"node ({level}, {index}) is not complete")
        while len(nodes) > 1:
            nodes = [node_hash(nodes[i], nodes[i + 1]) for i in range(0, len(nodes), 2)]
        return nodes[0]

    return read


def inclusion_proof(index: int, size: int, read: NodeReader) -> tuple[bytes, ...]:
    """PATH(index, D[0:size]): the siblings from the leaf up to the root.

    Raises:
        ValueError: there is no such leaf in a tree of that size.
    """
    if not 0 <= index < size:
        raise ValueError(f"no leaf {index} in a tree of {size}")
    proof: list[bytes] = []
    begin, end = 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            proof.append(_subtree(middle, end, read))
            end = middle
        else:
            proof.append(_subtree(begin, middle, read))
            begin = middle
    return tuple(reversed(proof))


def consistency_proof(old: int, new: int, read: NodeReader) -> tuple[bytes, ...]:
    """PROOF(old, D[0:new]): that the tree of `old` leaves is a prefix of that of `new`. Empty if old is 0 or new.

    Raises:
        ValueError: `old` is larger than `new`.
    """
    if not 0 <= old <= new:
        raise ValueError(f"a tree of {old} is no prefix of one of {new}")
    if old in (0, new):
        return ()
    proof: list[bytes] = []
    begin, end = 0, new
    while end != old:
        middle = begin + _split(end - begin)
        if old <= middle:
            proof.append(_subtree(middle, end, read))
            end = middle
        else:
            proof.append(_subtree(begin, middle, read))
            begin = middle
    if begin:  # else the remaining node is the old root, which the verifier has
        proof.append(_subtree(begin, end, read))
    return tuple(reversed(proof))


def verify_inclusion(leaf: bytes, proof: Sequence[bytes], *, index: int, size: int, root: bytes) -> None:
    """Check that `leaf` is the leaf `index` of the tree of `size` leaves with this root.

    Raises:
        IntegrityBroken: it is not, or the proof has the wrong length.
    """
    if not 0 <= index < size:
        raise IntegrityBroken(f"inclusion proof: no leaf {index} in a tree of {size}")
    node, fn, sn = leaf, index, size - 1
    for sibling in proof:
        if sn == 0 or len(sibling) != HASH_BYTES:
            raise IntegrityBroken(f"inclusion proof of leaf {index}: malformed or too long")
        if fn & 1 or fn == sn:
            node = node_hash(sibling, node)
            fn, sn = _to_left_turn(fn, sn)
        else:
            node = node_hash(node, sibling)
        fn, sn = fn >> 1, sn >> 1
    if sn != 0:
        raise IntegrityBroken(f"inclusion proof of leaf {index}: too short")
    if node != root:
        raise IntegrityBroken(f"inclusion proof of leaf {index} does not lead to the root of the tree of {size}")


def verify_consistency(
    proof: Sequence[bytes], *, old_size: int, old_root: bytes, new_size: int, new_root: bytes
) -> None:
    """Check that the tree of `old_size` leaves is a prefix of the one of `new_size`.

    Raises:
        IntegrityBroken: it is not (a fork or a rewritten history), or the proof has the wrong length.
    """
    if not 0 <= old_size <= new_size:
        raise IntegrityBroken(f"the log shrank from {old_size} to {new_size} entries")
    if old_size in (0, new_size):
        _verify_trivial(proof, old_root, EMPTY_ROOT if old_size == 0 else new_root)
        return
    path = list(proof) if old_size & (old_size - 1) else [old_root, *proof]
    if not path or any(len(node) != HASH_BYTES for node in path):
        raise IntegrityBroken(f"consistency proof from {old_size} to {new_size}: malformed or too short")
    if _replay(path, old_size, new_size) != (old_root, new_root):
        raise IntegrityBroken(f"the log of {new_size} entries does not extend the one of {old_size}: a fork")


def _verify_trivial(proof: Sequence[bytes], old_root: bytes, expected: bytes) -> None:
    """Nothing to prove: the old root must be the expected one, and the proof empty."""
    if proof:
        raise IntegrityBroken("consistency proof: must be empty here")
    if old_root != expected:
        raise IntegrityBroken("two roots for a tree of the same size: a fork")


def _replay(path: Sequence[bytes], old_size: int, new_size: int) -> tuple[bytes, bytes]:
    """Both roots as the consistency path gives them."""
    fn, sn = old_size - 1, new_size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old, new = path[0], path[0]
    for node in path[1:]:
        if sn == 0:
            raise IntegrityBroken(f"consistency proof from {old_size} to {new_size}: too long")
        if fn & 1 or fn == sn:
            old, new = node_hash(node, old), node_hash(node, new)
            fn, sn = _to_left_turn(fn, sn)
        else:
            new = node_hash(new, node)
        fn, sn = fn >> 1, sn >> 1
    if sn != 0:
        raise IntegrityBroken(f"consistency proof from {old_size} to {new_size}: too short")
    return old, new


def _to_left_turn(fn: int, sn: int) -> tuple[int, int]:
    """Skip the levels at which the node has no sibling (the right edge of a tree that is not full)."""
    while fn and not fn & 1:
        fn, sn = fn >> 1, sn >> 1
    return fn, sn


def _split(count: int) -> int:
    """The largest power of two below `count` (count > 1)."""
    return 1 << ((count - 1).bit_length() - 1)


def _cover(begin: int, end: int) -> list[tuple[int, int]]:
    """The maximal complete nodes of [begin, end), left to right; `begin` is 0 or a subtree's first leaf."""
    nodes: list[tuple[int, int]] = []
    while begin < end:
        level = (end - begin).bit_length() - 1
        nodes.append((level, begin >> level))
        begin += 1 << level
    return nodes


def _subtree(begin: int, end: int, read: NodeReader) -> bytes:
    """Merkle tree hash of the leaves [begin, end)."""
    return _fold([read(level, index) for level, index in _cover(begin, end)])


def _fold(peaks: Sequence[bytes]) -> bytes:
    """The root over peaks, leftmost first: the small right ones are joined first."""
    if not peaks:
        return EMPTY_ROOT
    node = peaks[-1]
    for peak in reversed(peaks[:-1]):
        node = node_hash(peak, node)
    return node
