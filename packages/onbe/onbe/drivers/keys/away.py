"""Nobody's published keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onbe.drivers.keys.protocol import KeysUnavailable


class NoKeys:
    """For programs that verify nothing."""

    async def at(self, uri: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        raise KeysUnavailable("this program fetches no keys")

    async def of_issuer(self, issuer: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        raise KeysUnavailable("this program fetches no keys")
