"""An issuer's public keys as a guard holds them: what to fetch when, as plain values. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from onbe_client.errors import BadAnswer
from onbe_client.renewal import backoff

KEYS_MOST = 100
"""Keys of a set that are looked at."""

Wish = Literal["none", "later", "now"]


@dataclass
class KeyBook:
    """ES256 keys by their id.

    `fresh`: seconds for which keys are used without a look. `stale`: for how long beyond that, while they cannot be
    fetched. `cooldown`: seconds between two looks for a key id that is not there, so that made-up ids cost nothing.
    """

    fresh: float = 300.0
    stale: float = 3600.0
    cooldown: float = 30.0
    keys: dict[str, ECKey] = field(default_factory=dict, repr=False)
    fetched_at: float | None = None
    next_try: float = 0.0
    failures: int = 0

    def wish(self, kid: str, now: float) -> Wish:
        """Whether to fetch for this key id: not at all, beside the answer (the key at hand is good), or before it."""
        if self.fetched_at is None:
            return "now" if now >= self.next_try else "none"
        age = now - self.fetched_at
        if kid in self.keys and age < self.fresh + self.stale:
            return "none" if age < self.fresh or now < self.next_try else "later"
        due = self.fetched_at + (self.cooldown if age < self.fresh else 0.0)
        return "now" if now >= max(due, self.next_try) else "none"

    def key(self, kid: str, now: float) -> ECKey | None:
        """The key; None where there is none of this id, or they are too old to be believed."""
        return self.keys.get(kid) if self.usable(now) else None

    def usable(self, now: float) -> bool:
        """Whether the keys at hand may be used at all."""
        return self.fetched_at is not None and now - self.fetched_at < self.fresh + self.stale

    @property
    def failing(self) -> bool:
        """Whether the last look failed, so that a key that is not here may well be there."""
        return self.failures > 0

    def came(self, document: Mapping[str, Any], now: float) -> None:
        """A key set came. Raises BadAnswer for what is none; the keys at hand then stay."""
        self.keys = keys_of(document)
        self.fetched_at, self.failures, self.next_try = now, 0, 0.0

    def failed(self, now: float, chance: float) -> None:
        """It could not be fetched: the next look is 1 to 60 s from now."""
        self.failures += 1
        self.next_try = now + backoff(self.failures, chance)


def keys_of(document: Mapping[str, Any]) -> dict[str, ECKey]:
    """The P-256 keys for signatures of a JWK set, by id. Others are left out, and those that show a private part."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise BadAnswer("bad_keys", "The issuer's key set is none.")
    found: dict[str, ECKey] = {}
    for item in listed[:KEYS_MOST]:
        if not isinstance(item, dict) or not isinstance(item.get("kid"), str) or "d" in item:
            continue
        if item.get("kty") != "EC" or item.get("crv") != "P-256":
            continue
        if item.get("use", "sig") != "sig" or item.get("alg", "ES256") != "ES256":
            continue
        try:
            key = ECKey.import_key({name: item[name] for name in ("kty", "crv", "x", "y")})
            key.get_op_key("verify")
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        found.setdefault(item["kid"], key)
    if not found:
        raise BadAnswer("bad_keys", "The issuer's key set holds no ES256 key.")
    return found
