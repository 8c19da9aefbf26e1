"""An agent's private key, and the assertions it signs (RFC 7523, `private_key_jwt`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from onbe_client.clock import World
from onbe_client.errors import Misconfigured

ASSERTION_LIFE = 120
"""Seconds; Onbe takes 5 minutes at most, and allows the clocks to differ by one."""
RSA_BITS_LEAST = 2048

KeyLike = str | bytes | os.PathLike[str] | Mapping[str, Any]
"""A PEM text, a private JWK (a mapping or its JSON), or the path of a file that holds one of these."""


class _Registry(JWSRegistry):
    """`EdDSA` without a warning: it is the name that servers know, and Ed25519 is its one curve here."""

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name] if name == "EdDSA" else super().get_alg(name)


class AgentKey:
    """A private key that signs: EC P-256 with ES256, RSA with RS256 (PS256 where its JWK says so), Ed25519 with EdDSA.

    The key id is the one given, else the JWK's own `kid`, else the RFC 7638 thumbprint. Raises Misconfigured, which
    repeats nothing of the key.
    """

    def __init__(self, key: KeyLike, *, kid: str | None = None, algorithm: str | None = None) -> None:
        self._key = _imported(_material(key))
        self.algorithm = _algorithm(self._key, algorithm)
        self.kid = kid or self._key.kid or self._key.thumbprint()

    def __repr__(self) -> str:
        return f"AgentKey({self.algorithm}, kid={self.kid!r})"

    def __reduce__(self) -> str:
        raise TypeError("a private key is not pickled")

    @property
    def public_jwk(self) -> dict[str, Any]:
        """What the agent's registration holds: the public JWK with `kid`, `alg` and `use`."""
        public = self._key.as_dict(private=False)
        return {**public, "kid": self.kid, "alg": self.algorithm, "use": "sig"}

    def assertion(self, agent_id: str, audience: str, world: World, *, ahead: float, instance: str | None) -> str:
        """A fresh assertion: `iss` = `sub` = the agent, a `jti` of its own. `ahead`: what to add to our clock, in s."""
        now = int(world.now() + ahead)
        claims: dict[str, Any] = {
            "iss": agent_id,
            "sub": agent_id,
            "aud": audience,
            "iat": now,
            "exp": now + ASSERTION_LIFE,
            "jti": world.nonce(),
        }
        if instance is not None:
            claims["instance"] = instance
        header = {"alg": self.algorithm, "kid": self.kid, "typ": "JWT"}
        return jwt.encode(header, claims, self._key, registry=_Registry(algorithms=[self.algorithm]))


def _material(key: KeyLike) -> bytes | dict[str, Any]:
    if isinstance(key, Mapping):
        return dict(key)
    if isinstance(key, str) and key.lstrip()[:1] not in ("{", "-"):
        key = Path(key)
    if isinstance(key, os.PathLike):
        try:
            key = Path(key).read_bytes()
        except OSError as error:
            raise Misconfigured("key_unreadable", f"The key's file cannot be read: {error.strerror}.") from None
    data = key.encode() if isinstance(key, str) else bytes(key)
    if data.lstrip()[:1] != b"{":
        return data
    try:
        parsed = json.loads(data)
    except ValueError:
        raise Misconfigured("key_malformed", "The key looks like a JWK and is not JSON.") from None
    return dict(parsed)


def _imported(material: bytes | dict[str, Any]) -> Key:
    kinds: tuple[type[ECKey] | type[RSAKey] | type[OKPKey], ...] = (ECKey, RSAKey, OKPKey)
    for kind in kinds:
        if isinstance(material, dict) and material.get("kty") != kind.key_type:
            continue
        try:
            key = kind.import_key(material)
            private = key.is_private
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
        if private:
            return key
    raise Misconfigured(
        "key_malformed", "The key is not a private key of the kinds EC P-256, RSA or Ed25519, as PEM or JWK."
    )


def _algorithm(key: Key, wanted: str | None) -> str:
    if isinstance(key, ECKey) and key.curve_name == "P-256":
        able = ["ES256"]
    elif isinstance(key, RSAKey):
        if key.raw_value.key_size < RSA_BITS_LEAST:
            raise Misconfigured("key_weak", f"The RSA key has fewer than {RSA_BITS_LEAST} bits.")
        able = ["RS256", "PS256"]
    elif isinstance(key, OKPKey) and key.curve_name == "Ed25519":
        able = ["EdDSA"]
    else:
        raise Misconfigured("key_unfit", "The key's curve is not P-256 or Ed25519.")
    named = wanted or key.alg
    if named is None:
        return able[0]
    if named not in able:
        raise Misconfigured("key_unfit", f"The key does not sign with the algorithm wanted, but with {able[0]}.")
    return named
