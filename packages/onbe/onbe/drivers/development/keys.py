"""The development issuer's key, where the keys of others are looked for: Onbe asks itself nothing over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onbe.drivers.development.protocol import DevelopmentIssuer
from onbe.drivers.keys.protocol import PublishedKeys


class WithOwnIssuer:
    """`keys`, and the development issuer's beside them."""

    def __init__(self, keys: PublishedKeys, own: DevelopmentIssuer) -> None:
        self._keys = keys
        self._own = own

    async def at(self, uri: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        return await self._keys.at(uri, kid)

    async def of_issuer(self, issuer: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        if issuer != self._own.issuer:
            return await self._keys.of_issuer(issuer, kid)
        return [key for key in self._own.jwks()["keys"] if kid in (None, key["kid"])]
