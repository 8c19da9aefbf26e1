"""The one place that makes identifiers and secrets, and compares secrets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import datetime
from typing import Protocol

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
"""Lower case, without the look-alikes i, l, o, 0 and 1."""


class Ids(Protocol):
    """Where chance comes from. `keel.testing.FakeIds` is the other implementation."""

    def token(self) -> str:
        """A secret: 32 random bytes in base64url without padding, 43 characters."""

    def short(self, length: int = 8) -> str:
        """`length` characters of `ALPHABET`, for a person to read."""

    def hex(self, length: int = 24) -> str:
        """`length` hexadecimal characters, lower case."""


class SystemIds:
    """Identifiers and secrets from the operating system's generator."""

    def token(self) -> str:
        return base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()

    def short(self, length: int = 8) -> str:
        return "".join(secrets.choice(ALPHABET) for _ in range(length))

    def hex(self, length: int = 24) -> str:
        return secrets.token_hex((length + 1) // 2)[:length]


CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(at: datetime, ids: Ids) -> str:
    """A ULID: the instant to the millisecond and 80 random bits, 26 characters of Crockford's base 32.

    Those of a later millisecond sort behind those of an earlier one.
    """
    value = round(at.timestamp() * 1000) << 80 | int(ids.hex(20), 16)
    return "".join(CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))


def digest(secret: str) -> bytes:
    """The SHA-256 of a secret: what is stored in its place. 32 bytes."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def derived(salt: bytes, secret: str, use: str) -> str:
    """A secret that follows from another one and a salt, one for each use: 43 characters, as `token` gives.

    Who has one of the two, the salt or the secret, knows nothing of it; who has both gets the same one again.
    """
    made = hmac.new(salt, f"{use}\0{secret}".encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def same_digest(stored: bytes | None, presented: bytes) -> bool:
    """Whether two digests are equal, in constant time. A missing one equals nothing."""
    return hmac.compare_digest(stored if stored is not None else bytes(32), presented) and stored is not None
