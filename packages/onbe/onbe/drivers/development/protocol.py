"""What the development issuer does for the endpoints under /development."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class DevelopmentIssuer(Protocol):
    """An OIDC-shaped issuer with one person. It is there in development alone, and only on loopback."""

    @property
    def issuer(self) -> str:
        """Its own name: `iss` of its tokens, the address of its endpoints."""

    @property
    def person(self) -> str:
        """The one person: `sub` of its tokens."""

    @property
    def enabled(self) -> bool:
        """Whether the person is active in its directory."""

    def enable(self, enabled: bool) -> None:
        """Let the person be active, or not: what off-boarding is tried with."""

    def token(self, scopes: Sequence[str], audience: str) -> tuple[str, int] | None:
        """A subject token for the person, and its seconds to live. None while they are disabled."""

    def jwks(self) -> Mapping[str, Any]:
        """Its public key, as a JWK set: never one of those that sign task tokens."""
