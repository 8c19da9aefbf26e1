"""A checkpoint: the root over the rows sealed since the one before, that one's hash, and a signature over all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from keel.ledger.canonical import instant, jcs

TYPE = "keel.checkpoint"
"""In the signed bytes, so that no signature over something else can be taken for one over a checkpoint."""


class BadFile(ValueError):
    """A file that should hold a checkpoint or a proof does not. The text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Number `number` of a chain. Its tree's leaves are the positions `first` to `last` of the ledger."""

    number: int
    """From 1 on, without a gap."""
    at: datetime
    first: int
    last: int
    root: bytes
    previous: bytes | None
    """The hash of the one before; None for the first."""
    settled: int
    """No row up to this seq is still to come: one that is not sealed was added behind the system's back."""
    key: str
    """The id of the key that signed."""

    @property
    def body(self) -> bytes:
        """The bytes that are signed."""
        return jcs({**self.told(), "type": TYPE, "v": 1})

    @property
    def hash(self) -> bytes:
        """What the next one names as `previous`."""
        return sha256(self.body).digest()

    @property
    def size(self) -> int:
        """How many leaves its tree has."""
        return self.last - self.first + 1

    def told(self) -> dict[str, Any]:
        """Its members as JSON holds them."""
        return {
            **asdict(self),
            "at": instant(self.at),
            "root": self.root.hex(),
            "previous": self.previous.hex() if self.previous else None,
        }


@dataclass(frozen=True, slots=True)
class Signed:
    """A checkpoint with the Ed25519 signature over its body."""

    checkpoint: Checkpoint
    signature: bytes

    def told(self) -> dict[str, Any]:
        """As a file holds it."""
        return {**self.checkpoint.told(), "signature": self.signature.hex()}


def read(told: object) -> Signed:
    """A checkpoint from what a file holds. Raises BadFile."""
    if not isinstance(told, Mapping):
        raise BadFile("a checkpoint is a JSON object")
    try:
        numbers = {name: told[name] for name in ("number", "first", "last", "settled")}
        if any(not isinstance(one, int) or isinstance(one, bool) for one in numbers.values()):
            raise TypeError
        previous = told["previous"]
        checkpoint = Checkpoint(
            at=datetime.fromisoformat(told["at"]),
            root=bytes.fromhex(told["root"]),
            previous=None if previous is None else bytes.fromhex(previous),
            key=str(told["key"]),
            **numbers,
        )
        return Signed(checkpoint, bytes.fromhex(told["signature"]))
    except (KeyError, TypeError, ValueError):
        raise BadFile("it holds no whole checkpoint") from None
