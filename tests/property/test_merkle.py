"""Proofs against the recursive definitions, at sizes and contents that nobody chose; and no spoilt proof passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.audit.merkle import (
    CompactRange,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_of,
    stored_leaves,
    verify_consistency,
    verify_inclusion,
)
from secureproto.errors import IntegrityBroken
from support import merkle_oracle as oracle

DATA = st.lists(st.binary(max_size=3), min_size=1, max_size=150)


@given(DATA, st.data())
def test_inclusion(entries: list[bytes], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(entries)))
    index = data.draw(st.integers(0, size - 1))
    leaves = [leaf_hash(entry) for entry in entries]
    proof = inclusion_proof(index, size, stored_leaves(leaves))
    assert list(proof) == oracle.path(index, entries[:size])
    root = root_of(size, stored_leaves(leaves))
    assert root == oracle.tree_hash(entries[:size])
    verify_inclusion(leaves[index], proof, index=index, size=size, root=root)


@given(DATA, st.data())
def test_consistency(entries: list[bytes], data: st.DataObject) -> None:
    new = data.draw(st.integers(1, len(entries)))
    old = data.draw(st.integers(1, new))
    read = stored_leaves([leaf_hash(entry) for entry in entries])
    proof = consistency_proof(old, new, read)
    assert list(proof) == oracle.proof(old, entries[:new])
    verify_consistency(proof, old_size=old, old_root=root_of(old, read), new_size=new, new_root=root_of(new, read))


@given(st.integers(2, 200), st.data())
def test_no_inclusion_proof_with_a_flipped_bit_passes(size: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(i.to_bytes(2, "big")) for i in range(size)]
    read = stored_leaves(leaves)
    index = data.draw(st.integers(0, size - 1))
    proof = flipped(list(inclusion_proof(index, size, read)), data)
    with pytest.raises(IntegrityBroken):
        verify_inclusion(leaves[index], proof, index=index, size=size, root=root_of(size, read))


@given(st.integers(3, 200), st.data())
def test_no_consistency_proof_with_a_flipped_bit_passes(new: int, data: st.DataObject) -> None:
    read = stored_leaves([leaf_hash(i.to_bytes(2, "big")) for i in range(new)])
    old = data.draw(st.integers(1, new - 1))
    proof = flipped(list(consistency_proof(old, new, read)), data)
    with pytest.raises(IntegrityBroken):
        verify_consistency(
            proof, old_size=old, old_root=root_of(old, read), new_size=new, new_root=root_of(new, read)
        )


@given(st.integers(1, 200), st.data())
def test_a_leaf_changed_before_the_old_size_is_a_fork(new: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(i.to_bytes(2, "big")) for i in range(new)]
    old = data.draw(st.integers(1, new))
    place = data.draw(st.integers(0, old - 1))
    other = stored_leaves([*leaves[:place], leaf_hash(b"forged"), *leaves[place + 1 :]])
    with pytest.raises(IntegrityBroken, match="fork"):
        verify_consistency(
            consistency_proof(old, new, other),
            old_size=old,
            old_root=root_of(old, stored_leaves(leaves)),
            new_size=new,
            new_root=root_of(new, other),
        )


@given(st.integers(0, 300), st.integers(0, 60))
def test_a_range_taken_up_again_from_its_peaks_is_the_same(before: int, after: int) -> None:
    leaves = [leaf_hash(i.to_bytes(2, "big")) for i in range(before + after)]
    whole = CompactRange()
    for leaf in leaves[:before]:
        whole.append(leaf)
    again = CompactRange(whole.size, whole.peaks)
    for leaf in leaves[before:]:
        assert whole.append(leaf) == again.append(leaf)
    assert whole.root == again.root == root_of(len(leaves), stored_leaves(leaves))


def flipped(proof: list[bytes], data: st.DataObject) -> list[bytes]:
    where = data.draw(st.integers(0, len(proof) - 1))
    bit = data.draw(st.integers(0, 255))
    value = int.from_bytes(proof[where], "big") ^ 1 << bit
    return [*proof[:where], value.to_bytes(32, "big"), *proof[where + 1 :]]
