"""Published keys that a test lays out; it can take them away, and let their endpoint fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keel import jose
from keel.db import forbid_in_transaction
from onbe.drivers.keys.protocol import KeysUnavailable


class FakeKeys:
    """`PublishedKeys` in memory: what `publish` said is there at once."""

    def __init__(self) -> None:
        self._sets: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._issuers: dict[str, Sequence[Mapping[str, Any]]] = {}
        self.down = False

    def publish(self, keys: Iterable[Mapping[str, Any]], *, uri: str | None = None, issuer: str | None = None) -> None:
        """Have these keys, and no others, at an address or an identity provider's."""
        usable = tuple(key for key in keys if jose.algorithm(key) is not None)
        if uri is not None:
            self._sets[uri] = usable
        if issuer is not None:
            self._issuers[issuer] = usable

    async def at(self, uri: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        return self._given(self._sets.get(uri), kid)

    async def of_issuer(self, issuer: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        return self._given(self._issuers.get(issuer), kid)

    def _given(self, keys: Sequence[Mapping[str, Any]] | None, kid: str | None) -> Sequence[Mapping[str, Any]]:
        forbid_in_transaction("a look at published keys")
        if self.down or keys is None:
            raise KeysUnavailable("nothing is published there")
        return [key for key in keys if kid is None or key.get("kid") == kid]
