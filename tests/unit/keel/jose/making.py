"""Tokens as an attacker makes them: any header, any bytes, signed by any means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from keel import jose

Jwk = dict[str, Any]
AnyKey = ECKey | RSAKey | OKPKey

CLAIMS = {"iss": "agent", "sub": "agent", "aud": "https://onbe.example.com", "exp": 1_800_000_000, "jti": "1"}


@cache
def key(kind: str) -> AnyKey:
    """One key of a kind for the whole run: P-256, P-384, P-521, secp256k1, Ed25519, rsa-BITS; `+` for a second one."""
    kind = kind.rstrip("+")
    if kind.startswith("rsa-"):
        return RSAKey.import_key(rsa.generate_private_key(65537, int(kind[4:])))
    if kind == "Ed25519":
        return OKPKey.import_key(ed25519.Ed25519PrivateKey.generate())
    curves: dict[str, ec.EllipticCurve] = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    return ECKey.import_key(ec.generate_private_key(curves[kind]))


def public(kind: str, **more: Any) -> Jwk:
    """The JWK of a kind, with more members or others; `None` leaves one out."""
    made = {**key(kind).as_dict(private=False), "kid": kind, **more}
    return {name: value for name, value in made.items() if value is not None}


def part(value: Any) -> str:
    """A part of a token: of JSON, or of the very bytes or text given."""
    if isinstance(value, str):
        value = value.encode()
    return jose.encode(value if isinstance(value, bytes) else json.dumps(value).encode())


def signed(kind: str, alg: str, header: Any, claims: Any = CLAIMS) -> str:
    """A token over any header and claims, signed by a kind's key in the way of `alg`, whatever the header says."""
    front = f"{part(header)}.{part(claims)}"
    return f"{front}.{jose.encode(JWSRegistry.algorithms[alg].sign(front.encode(), key(kind)))}"


def honest(kind: str, alg: str, claims: Mapping[str, Any] = CLAIMS, **header: Any) -> str:
    """A token as an agent makes it."""
    said = {"alg": alg, "kid": kind, **header}
    return signed(kind, alg, {name: value for name, value in said.items() if value is not None}, claims)
