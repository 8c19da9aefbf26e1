"""Keys in memory, for tests: made anew, or the same ones for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key

from onbe.drivers.signing.ring import Ring, SigningKey


class FakeSigning:
    """A `Signing` whose keys follow from its seed: never outside a test."""

    def __init__(self, issuer: str, seed: str = "") -> None:
        self.issuer = issuer
        self._seed = seed
        self._keys: list[SigningKey] = []
        self.rotate()

    def rotate(self) -> str:
        """A new key signs from now on; the others stay published. Its kid."""
        made = hashlib.sha256(f"{self._seed}/{len(self._keys)}".encode()).digest()
        key = SigningKey.of(derive_private_key(int.from_bytes(made) >> 1 | 1, SECP256R1()))
        self._keys.insert(0, key)
        self._ring = Ring(self.issuer, self._keys, key.kid)
        return key.kid

    def sign(self, claims: Mapping[str, Any]) -> str:
        return self._ring.sign(claims)

    def claims(self, token: str) -> Mapping[str, Any] | None:
        return self._ring.claims(token)

    def jwks(self) -> Mapping[str, Any]:
        return self._ring.jwks()
