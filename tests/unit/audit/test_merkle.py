"""The tree against RFC 6962's recursive definitions, and against the vectors that CT implementations share."""

from itertools import product

import pytest

from secureproto.audit.merkle import (
    EMPTY_ROOT,
    CompactRange,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    peaks_of,
    root_of,
    stored_leaves,
    verify_consistency,
    verify_inclusion,
)
from secureproto.errors import IntegrityBroken
from support import merkle_oracle as oracle

SIZES = 65
DATA = [bytes([i]) * (i % 5) for i in range(SIZES)]
LEAVES = [leaf_hash(data) for data in DATA]
READ = stored_leaves(LEAVES)
ROOTS = [oracle.tree_hash(DATA[:size]) for size in range(SIZES)]

# The inputs, roots and proofs of the Certificate Transparency reference tests.
CT_DATA = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
CT_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAF_1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
LEAF_4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
NODE_23 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
NODE_45 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
NODE_67 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
NODE_47 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
CT_INCLUSION = [
    (0, 1, []),
    (0, 8, [LEAF_1, NODE_23, NODE_47]),
    (5, 8, [LEAF_4, NODE_67, CT_ROOTS[4]]),
    (2, 3, [CT_ROOTS[2]]),
    (1, 5, [CT_ROOTS[1], NODE_23, LEAF_4]),
]
CT_CONSISTENCY = [
    (1, 1, []),
    (1, 8, [LEAF_1, NODE_23, NODE_47]),
    (6, 8, [NODE_45, NODE_67, CT_ROOTS[4]]),
    (2, 5, [NODE_23, LEAF_4]),
]


def test_roots_of_every_size() -> None:
    tree = CompactRange()
    for size in range(SIZES):
        assert tree.root == ROOTS[size]
        assert root_of(size, READ) == ROOTS[size]
        assert tree.peaks == peaks_of(size, READ)
        tree.append(LEAVES[size])


def test_append_returns_the_complete_nodes_it_made() -> None:
    tree, nodes = CompactRange(), dict[tuple[int, int], bytes]()
    for index, leaf in enumerate(LEAVES):
        nodes |= {(level, index >> level): node for level, node in enumerate(tree.append(leaf))}
    assert nodes == {(level, index): READ(level, index) for level in range(7) for index in range(SIZES >> level)}


def test_every_inclusion_proof_of_every_size() -> None:
    for size in range(1, SIZES):
        for index in range(size):
            proof = inclusion_proof(index, size, READ)
            assert list(proof) == oracle.path(index, DATA[:size])
            verify_inclusion(LEAVES[index], proof, index=index, size=size, root=ROOTS[size])


def test_every_consistency_proof_of_every_pair_of_sizes() -> None:
    for old, new in product(range(SIZES), repeat=2):
        if old > new:
            continue
        proof = consistency_proof(old, new, READ)
        if old:
            assert list(proof) == oracle.proof(old, DATA[:new])
        verify_consistency(proof, old_size=old, old_root=ROOTS[old], new_size=new, new_root=ROOTS[new])


@pytest.mark.parametrize("size", range(9))
def test_published_roots(size: int) -> None:
    assert root_of(size, stored_leaves([leaf_hash(data) for data in CT_DATA])).hex() == CT_ROOTS[size]


@pytest.mark.parametrize(("index", "size", "proof"), CT_INCLUSION)
def test_published_inclusion_proofs(index: int, size: int, proof: list[str]) -> None:
    leaves = [leaf_hash(data) for data in CT_DATA]
    assert [node.hex() for node in inclusion_proof(index, size, stored_leaves(leaves))] == proof
    path = [bytes.fromhex(node) for node in proof]
    verify_inclusion(leaves[index], path, index=index, size=size, root=bytes.fromhex(CT_ROOTS[size]))


@pytest.mark.parametrize(("old", "new", "proof"), CT_CONSISTENCY)
def test_published_consistency_proofs(old: int, new: int, proof: list[str]) -> None:
    read = stored_leaves([leaf_hash(data) for data in CT_DATA])
    assert [node.hex() for node in consistency_proof(old, new, read)] == proof
    verify_consistency(
        [bytes.fromhex(node) for node in proof],
        old_size=old,
        old_root=bytes.fromhex(CT_ROOTS[old]),
        new_size=new,
        new_root=bytes.fromhex(CT_ROOTS[new]),
    )


def test_published_hashes_of_a_leaf_and_a_node() -> None:
    assert leaf_hash(b"L123456").hex() == "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56"
    assert node_hash(b"N123", b"N456").hex() == "aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb"


def test_a_node_never_passes_for_a_leaf() -> None:
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node_hash(LEAVES[0], LEAVES[1])


CHANGES = [
    ("short", "too short"),
    ("long", "too long"),
    ("empty", "too short"),
    ("flipped", "fork|does not lead"),
    ("swapped", "fork|does not lead|too long"),
    ("stub", "malformed"),
]


@pytest.mark.parametrize(("change", "says"), CHANGES)
def test_a_changed_inclusion_proof_fails(change: str, says: str) -> None:
    proof = spoil(inclusion_proof(5, 13, READ), change)
    with pytest.raises(IntegrityBroken, match=says):
        verify_inclusion(LEAVES[5], proof, index=5, size=13, root=ROOTS[13])


@pytest.mark.parametrize(("change", "says"), CHANGES)
@pytest.mark.parametrize("old", [5, 8])
def test_a_changed_consistency_proof_fails(old: int, change: str, says: str) -> None:
    proof = spoil(consistency_proof(old, 13, READ), change)
    with pytest.raises(IntegrityBroken, match=says):
        verify_consistency(proof, old_size=old, old_root=ROOTS[old], new_size=13, new_root=ROOTS[13])


def spoil(proof: tuple[bytes, ...], change: str) -> tuple[bytes, ...]:
    return {
        "short": proof[:-1],
        "long": (*proof, proof[0]),
        "empty": (),
        "flipped": (bytes([proof[0][0] ^ 1]) + proof[0][1:], *proof[1:]),
        "swapped": proof[::-1] if len(proof) > 1 else (*proof, *proof),
        "stub": (proof[0][:-1], *proof[1:]),
    }[change]


@pytest.mark.parametrize(("index", "size"), [(13, 13), (-1, 13), (4, 13), (5, 8), (5, 17), (0, 0)])
def test_an_inclusion_proof_holds_for_its_own_place_only(index: int, size: int) -> None:
    with pytest.raises(IntegrityBroken):
        verify_inclusion(LEAVES[5], inclusion_proof(5, 13, READ), index=index, size=size, root=ROOTS[13])


def test_a_proof_that_goes_on_behind_the_root_fails() -> None:
    with pytest.raises(IntegrityBroken, match="too long"):
        verify_inclusion(LEAVES[0], [LEAVES[1]], index=0, size=1, root=node_hash(LEAVES[1], LEAVES[0]))


def test_two_roots_of_one_size_are_a_fork() -> None:
    with pytest.raises(IntegrityBroken, match="fork"):
        verify_consistency([], old_size=5, old_root=ROOTS[6], new_size=5, new_root=ROOTS[5])
    with pytest.raises(IntegrityBroken, match="fork"):
        verify_consistency([], old_size=0, old_root=ROOTS[1], new_size=5, new_root=ROOTS[5])
    verify_consistency([], old_size=0, old_root=EMPTY_ROOT, new_size=5, new_root=ROOTS[5])


def test_a_history_rewritten_before_the_old_size_is_a_fork() -> None:
    other = stored_leaves([leaf_hash(b"forged"), *LEAVES[1:]])
    with pytest.raises(IntegrityBroken, match="fork"):
        verify_consistency(
            consistency_proof(5, 13, other),
            old_size=5,
            old_root=ROOTS[5],
            new_size=13,
            new_root=root_of(13, other),
        )


def test_a_proof_where_none_is_needed_fails() -> None:
    with pytest.raises(IntegrityBroken, match="empty"):
        verify_consistency([LEAVES[0]], old_size=5, old_root=ROOTS[5], new_size=5, new_root=ROOTS[5])


def test_a_log_that_shrank() -> None:
    with pytest.raises(IntegrityBroken, match="shrank from 6 to 5"):
        verify_consistency([], old_size=6, old_root=ROOTS[6], new_size=5, new_root=ROOTS[5])


def test_misuse_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no leaf 3"):
        inclusion_proof(3, 3, READ)
    with pytest.raises(ValueError, match="no prefix"):
        consistency_proof(4, 3, READ)
    with pytest.raises(ValueError, match="as many peaks"):
        CompactRange(3, [LEAVES[0]])
    with pytest.raises(ValueError, match="not complete"):
        stored_leaves(LEAVES[:3])(1, 1)


def test_a_range_goes_on_from_stored_peaks() -> None:
    tree = CompactRange(13, peaks_of(13, READ))
    tree.append(LEAVES[13])
    assert (tree.size, tree.root) == (14, ROOTS[14])
