"""Trees against the vectors of the Certificate Transparency project, and proofs against trees of every size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.ledger.merkle import EMPTY, leaf_hash, node_hash, path, root, root_of_path

INPUTS = [
    bytes.fromhex(one)
    for one in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
"""The eight entries that implementations of RFC 6962 and RFC 9162 test with."""
ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
"""The roots over the first n of them."""
PATHS = {
    0: (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    5: (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
}
"""Inclusion proofs in the tree of all eight."""

LEAVES = [leaf_hash(one) for one in INPUTS]


@pytest.mark.parametrize("size", range(9))
def test_the_root_of_each_size_is_the_published_one(size: int) -> None:
    assert root(LEAVES[:size]).hex() == ROOTS[size]


@pytest.mark.parametrize("index", PATHS)
def test_the_proofs_in_the_tree_of_eight_are_the_published_ones(index: int) -> None:
    assert tuple(one.hex() for one in path(LEAVES, index)) == PATHS[index]


def test_the_root_splits_at_the_largest_power_of_two() -> None:
    def of(leaves: list[bytes]) -> bytes:
        """The RFC's own words (2.1.1), which recurse."""
        if len(leaves) < 2:
            return leaves[0] if leaves else EMPTY
        split = 1 << (len(leaves) - 1).bit_length() - 1
        return node_hash(of(leaves[:split]), of(leaves[split:]))

    for size in range(70):
        leaves = [leaf_hash(bytes([n])) for n in range(size)]
        assert root(leaves) == of(leaves)


@given(st.integers(1, 70), st.data())
def test_a_proof_leads_to_the_root_and_no_other_leaf_place_or_length_does(size: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(bytes([n])) for n in range(size)]
    index = data.draw(st.integers(0, size - 1))
    proof, whole = path(leaves, index), root(leaves)
    assert root_of_path(leaves[index], index, size, proof) == whole
    other = data.draw(st.integers(-1, size))
    if other != index:
        assert root_of_path(leaves[index], other, size, proof) != whole
    assert root_of_path(leaf_hash(b"not there"), index, size, proof) != whole
    assert root_of_path(leaves[index], index, size, [*proof, EMPTY]) is None
    if proof:
        assert root_of_path(leaves[index], index, size, proof[:-1]) is None
        assert root_of_path(leaves[index], index, size, [*proof[:-1], EMPTY]) != whole


def test_a_leaf_and_a_node_of_the_same_bytes_have_different_hashes() -> None:
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node_hash(LEAVES[0], LEAVES[1])
    with pytest.raises(IndexError):
        path(LEAVES, 8)
