"""The development issuer itself, in memory: a new key and an active person at each start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from keel.clock import Clock
from keel.ids import Ids

PERSON = "ada@example.test"
TOKEN_LIFE = timedelta(hours=1)


class OwnIssuer:
    """`issuer` is its address: Onbe's own, and `/development`."""

    def __init__(self, issuer: str, clock: Clock, ids: Ids, person: str = PERSON) -> None:
        self.issuer = issuer
        self.person = person
        self._clock = clock
        self._ids = ids
        self._enabled = True
        self._key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256"}, auto_kid=True)

    @property
    def enabled(self) -> bool:
        return self._enabled

    def enable(self, enabled: bool) -> None:
        self._enabled = enabled

    def token(self, scopes: Sequence[str], audience: str) -> tuple[str, int] | None:
        if not self._enabled:
            return None
        now, lasts = int(self._clock.now().timestamp()), int(TOKEN_LIFE.total_seconds())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": self.person,
            "aud": audience,
            "iat": now,
            "exp": now + lasts,
            "jti": self._ids.hex(),
            "email": self.person,
            "scope": " ".join(scopes),
        }
        return jwt.encode({"alg": "ES256", "typ": "JWT", "kid": self._key.kid}, claims, self._key), lasts

    def jwks(self) -> Mapping[str, Any]:
        return {"keys": [self._key.as_dict(private=False)]}
