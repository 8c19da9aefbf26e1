"""JWTs as a tester and an attacker make them: any header, any bytes, signed by any means.

Nothing here is the server's own code for tokens: what is to be judged must not judge itself.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joserfc.jwk import ECKey
from joserfc.jws import JWSRegistry


@dataclass(frozen=True, slots=True, repr=False)
class Signer:
    """A key of the tester's, and the id that it goes by."""

    key: ECKey
    kid: str

    @classmethod
    def new(cls, kid: str | None = None) -> Signer:
        """A new ES256 key."""
        key = ECKey.generate_key("P-256")
        return cls(key, kid or key.thumbprint())

    @property
    def public(self) -> dict[str, Any]:
        """As a JWK set lists it."""
        return {**self.key.as_dict(private=False), "kid": self.kid, "use": "sig", "alg": "ES256"}

    def jwt(self, claims: Any, header: Mapping[str, Any] | None = None) -> str:
        """A JWT; members of the header can be replaced, or left out with None. Claims may be bytes."""
        made = {"alg": "ES256", "kid": self.kid, "typ": "JWT", **(header or {})}
        front = f"{part({name: value for name, value in made.items() if value is not None})}.{part(claims)}"
        return f"{front}.{encode(JWSRegistry.algorithms['ES256'].sign(front.encode(), self.key))}"

    def without_algorithm(self, claims: Any, name: str = "none") -> list[str]:
        """JWTs that say that they are not signed: without a signature, and with one that holds."""
        front = f"{part({'alg': name, 'kid': self.kid})}.{part(claims)}"
        return [f"{front}.", f"{front}.AA", self.jwt(claims, {"alg": name})]

    def with_the_public_key(self, claims: Any) -> list[str]:
        """JWTs whose shared secret is the public key, as PEM and as the JWK that is registered."""
        front = f"{part({'alg': 'HS256', 'kid': self.kid})}.{part(claims)}"
        secrets = (self.key.as_pem(private=False), json.dumps(self.public).encode())
        return [f"{front}.{encode(hmac.new(one, front.encode(), hashlib.sha256).digest())}" for one in secrets]


def part(value: Any) -> str:
    """A part of a JWT: of JSON, or of the very bytes given."""
    return encode(value if isinstance(value, bytes) else json.dumps(value).encode())


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def told(token: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a JWT, not verified. Raises ValueError for what is none."""
    parts = str(token).split(".")
    if len(parts) != 3:
        raise ValueError("not a compact JWT")
    header, claims = (json.loads(base64.urlsafe_b64decode(one + "=" * (-len(one) % 4))) for one in parts[:2])
    return header, claims


def holds(token: str, jwk: Mapping[str, Any]) -> bool:
    """Whether an ES256 signature of a JWT is this key's."""
    front, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    key = ECKey.import_key({"kty": "EC", "crv": jwk["crv"], "x": jwk["x"], "y": jwk["y"]})
    return JWSRegistry.algorithms["ES256"].verify(front.encode(), raw, key)
