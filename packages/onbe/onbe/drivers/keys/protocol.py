"""The keys that others publish: an agent's at its jwks_uri, the identity provider's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class KeysUnavailable(Exception):
    """The keys cannot be had now. The text says why, for a log; it holds nothing that was fetched."""


class PublishedKeys(Protocol):
    """JWK sets by address."""

    async def at(self, uri: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        """The public keys at an address that may have signed with `kid`; empty where there is none of that id.

        Fetched at most once for any number of callers at once; again when it is stale or, within a cooldown, when the
        kid is unknown. Never follows a redirect, never reads without bound, goes to no private address that is not
        allowed. Raises KeysUnavailable.
        """

    async def of_issuer(self, issuer: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        """The same for an identity provider, whose jwks_uri its discovery document says. Raises KeysUnavailable."""
