"""Merkle trees as RFC 9162 (2.1) has them: SHA-256, 0x00 before a leaf's bytes, 0x01 before two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

EMPTY = sha256(b"").digest()
"""The root of a tree without leaves."""


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf. 32 bytes."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes.

    Level by level; a node without a partner rises as it is. That is the RFC's tree, whose left part is the largest
    power of two below the size.
    """
    level = list(leaves)
    if not level:
        return EMPTY
    while len(level) > 1:
        level = _up(level)
    return level[0]


def path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The inclusion proof of the leaf at `index`: its siblings, the lowest first. IndexError when there is none."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"no leaf {index} among {len(leaves)}")
    level, found = list(leaves), []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            found.append(level[sibling])
        level, index = _up(level), index >> 1
    return found


def root_of_path(leaf: bytes, index: int, size: int, siblings: Sequence[bytes]) -> bytes | None:
    """The root that a proof leads to (RFC 9162, 2.1.3.2); None where its length does not fit the tree's size."""
    if not 0 <= index < size:
        return None
    at, last, found = index, size - 1, leaf
    left = list(siblings)
    while last:
        if at & 1 or at < last:
            if not left:
                return None
            sibling = left.pop(0)
            found = node_hash(sibling, found) if at & 1 else node_hash(found, sibling)
        at, last = at >> 1, last >> 1
    return None if left else found


def _up(level: list[bytes]) -> list[bytes]:
    pairs = iter(level)
    above = [sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=False)]
    if len(level) & 1:
        above.append(level[-1])
    return above


class Growing:
    """A tree that leaves are added to one by one, and of which no more than one hash a level is kept."""

    def __init__(self) -> None:
        self.size = 0
        self._whole: list[bytes] = []
        """The roots of the whole subtrees, the largest first: one for each 1 in `size`."""

    def add(self, leaf: bytes) -> None:
        """Add a leaf's hash at the end."""
        self.size += 1
        merging = self.size
        while not merging & 1:
            leaf = node_hash(self._whole.pop(), leaf)
            merging >>= 1
        self._whole.append(leaf)

    def root(self) -> bytes:
        """The root over all of them, as `root` gives it."""
        if not self._whole:
            return EMPTY
        found = self._whole[-1]
        for left in reversed(self._whole[:-1]):
            found = node_hash(left, found)
        return found
