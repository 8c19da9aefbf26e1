"""No keys to sign with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NoSigning:
    """For programs that sign nothing."""

    def sign(self, claims: Mapping[str, Any]) -> str:
        raise RuntimeError("there is no key to sign with")

    def claims(self, token: str) -> Mapping[str, Any] | None:
        return None

    def jwks(self) -> Mapping[str, Any]:
        return {"keys": []}
