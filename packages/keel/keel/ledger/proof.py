"""One row's proof, for anybody: the row's bytes, its path in the tree, the signed checkpoint, the public key.

Made from the ledger, checked from the file alone. It shows that the key's owner sealed this very row; that the key is
theirs is for the reader to know, from a checkpoint or a key that they were given before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keel.ledger import merkle
from keel.ledger.checkpoint import BadFile, Signed, read
from keel.ledger.keys import key_id, signed_by

TYPE = "keel.proof"


@dataclass(frozen=True, slots=True)
class Proof:
    """A row's bytes and its way to a signed root."""

    entry: bytes
    index: int
    """Its place in the checkpoint's tree, from 0 on."""
    path: tuple[bytes, ...]
    signed: Signed
    public: bytes
    """The Ed25519 key that signed: 32 bytes."""

    def told(self) -> dict[str, Any]:
        """As a file holds it. `record` is the text whose bytes are hashed."""
        return {
            "type": TYPE,
            "v": 1,
            "record": self.entry.decode(),
            "index": self.index,
            "path": [one.hex() for one in self.path],
            "checkpoint": self.signed.told(),
            "public_key": self.public.hex(),
        }

    def problem(self, trusted: str | None = None) -> str | None:
        """What is wrong with it; None when it holds. `trusted` is the key that it must be signed with, in hex."""
        checkpoint = self.signed.checkpoint
        if trusted is not None and self.public.hex() != trusted.lower():
            return f"it is signed with the key {self.public.hex()}, not with the one that was asked for"
        if key_id(self.public) != checkpoint.key:
            return "its public key is not the one that its checkpoint names"
        if not signed_by(self.public, self.signed.signature, checkpoint.body):
            return f"the signature under checkpoint {checkpoint.number} is wrong"
        found = merkle.root_of_path(merkle.leaf_hash(self.entry), self.index, checkpoint.size, self.path)
        if found is None:
            return "its path does not fit the size of the tree"
        if found != checkpoint.root:
            return f"its record is not in the tree of checkpoint {checkpoint.number}"
        return None


def make(entry: bytes, leaves: Sequence[bytes], index: int, signed: Signed, public: bytes) -> Proof:
    """The proof of the row at `index` of a checkpoint whose leaf hashes are given."""
    return Proof(entry, index, tuple(merkle.path(leaves, index)), signed, public)


def parse(text: str) -> Proof:
    """A proof from a file's text. Raises BadFile."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise BadFile("it is not JSON") from None
    if not isinstance(told, Mapping) or told.get("type") != TYPE or told.get("v") != 1:
        raise BadFile("it is no proof of a record")
    signed = read(told.get("checkpoint"))
    try:
        record, index = told["record"], told["index"]
        if not isinstance(record, str) or not isinstance(index, int) or isinstance(index, bool):
            raise TypeError
        path = tuple(bytes.fromhex(one) for one in told["path"])
        public = bytes.fromhex(told["public_key"])
        if len(public) != 32:
            raise ValueError
        return Proof(record.encode(), index, path, signed, public)
    except (KeyError, TypeError, ValueError):
        raise BadFile("it holds no whole proof") from None
