"""The keys that sign what we issue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Signing(Protocol):
    """ES256 keys: one that signs, the others published until nothing needs them. Source: RFC 7515, 7517, 7638, 9068."""

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A compact JWT with the headers `alg` ES256, `typ` at+jwt and `kid`, signed with the active key."""

    def claims(self, token: str) -> Mapping[str, Any] | None:
        """The claims of a token that one of our keys signed, with our issuer and `typ`; None for anything else.

        Its times are not judged here.
        """

    def jwks(self) -> Mapping[str, Any]:
        """The public keys as a JWK set: every one that tokens or checkpoints may be signed with."""
