"""JWTs of others, checked: the algorithm is the key's, and nothing in a header is trusted.

Pure; the cryptography is joserfc's. `peek` looks at a token before it is verified, to find the keys; `verified` gives
its header and claims, or says what is wrong. Times, issuers and audiences are for the caller to judge.

The compact serialization alone (RFC 7515, 3.1), read strictly: canonical base64url without padding, UTF-8, JSON with
no member twice, no NaN, no endless nesting, and no text that a database cannot hold. A header with `crit` or `b64` is
malformed; `jku`, `jwk`, `x5u` and `x5c` are never looked at.

Which algorithm a key is for is the key's to say: P-256 is ES256, Ed25519 is EdDSA, RSA of 2048 to 8192 bits is what
its `alg` says, PS256 or RS256, and RS256 without one (the default of OpenID Connect). Whatever else a set holds, as
symmetric keys, other curves, keys for encryption, and keys that show a private member, is as if it were not there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

Trouble = Literal["malformed", "algorithm", "key_unknown", "signature"]

ALGORITHMS = ("ES256", "PS256", "RS256", "EdDSA")
"""What is verified with; each key is for one of them."""
TOKEN_LENGTH = 16 * 1024
"""The most characters of a token."""
HEADER_LENGTH = 4096
"""The most characters of a token's first part: those that say much there carry certificates, which nobody looks at."""
KID_LENGTH = 256
DEPTH = 12
"""How deep a header or claims may nest. Five agents in a chain of `act` are less."""
RSA_LEAST, RSA_MOST = 2048, 8192
"""Bits of a modulus. More would be slow, and it is an agent who chooses."""
SAME_KID = 4
"""How many keys of one id are tried: one for each way of signing."""
IMPORTED = 1024
"""How many keys are held ready: importing one takes as long as a verification."""

PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""Members of a JWK that nobody publishes: a key that shows one is burnt."""


@dataclass(frozen=True, slots=True)
class Peek:
    """What an unverified token says of itself, good for finding keys and for nothing else."""

    kid: str | None
    issuer: str | None
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Jwt:
    """A JWT whose signature holds."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]


def peek(token: str) -> Peek | None:
    """Key id and issuer of a token; None for what is no JWT that is taken here."""
    read = _read(token)
    if read is None:
        return None
    header, claims, _, _ = read
    issuer = claims.get("iss")
    return Peek(header.get("kid"), issuer if isinstance(issuer, str) else None, claims)


def verified(token: str, keys: Sequence[Mapping[str, Any]]) -> Jwt | Trouble:
    """The token, if one of these public JWKs signed it.

    A token with a `kid` is held against the keys of that id alone; one without, against the only usable key there is.
    """
    read = _read(token)
    if read is None:
        return "malformed"
    header, claims, signed, signature = read
    said = header["alg"]
    if said not in ALGORITHMS:
        return "algorithm"
    usable = [(key, alg) for key in keys if (alg := algorithm(key))]
    if "kid" in header:
        usable = [(key, alg) for key, alg in usable if key.get("kid") == header["kid"]]
    elif len(usable) > 1:
        return "key_unknown"
    if not usable:
        return "key_unknown"
    fitting = [key for key, alg in usable if alg == said]
    if not fitting:
        return "algorithm"
    for key in fitting[:SAME_KID]:
        imported = _imported(*_essence(key))
        if imported is not None and JWSRegistry.algorithms[said].verify(signed, signature, imported):
            return Jwt(header, claims)
    return "signature"


def algorithm(key: Mapping[str, Any]) -> str | None:
    """The one algorithm that a public JWK is for; None for a key that is not usable here."""
    if not PRIVATE.isdisjoint(key) or key.get("use", "sig") != "sig":
        return None
    operations = key.get("key_ops", ["verify"])
    if not isinstance(operations, list | tuple) or "verify" not in operations:
        return None
    kid = key.get("kid", "")
    if not isinstance(kid, str) or len(kid) > KID_LENGTH:
        return None
    alg = _fits(key)
    return alg if alg is not None and _imported(*_essence(key)) is not None else None


def thumbprint(key: Mapping[str, Any]) -> str:
    """The name of a usable JWK (RFC 7638): base64url of the SHA-256 over its essence, 43 characters."""
    members = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x")}[key["kty"]]
    essence = json.dumps({name: key[name] for name in members}, separators=(",", ":"), sort_keys=True)
    return encode(hashlib.sha256(essence.encode()).digest())


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes | None:
    """The bytes of base64url without padding; None for what is not spelled the one canonical way."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if encode(data) == text else None


def parse(data: bytes) -> dict[str, Any] | None:
    """A JSON object, read strictly; None for anything else."""
    try:
        value = json.loads(data.decode(), object_pairs_hook=_once, parse_float=_finite, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not all(map(_storable, _texts(value, DEPTH))):
        return None
    return value


def _read(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes] | None:
    """Header, claims, the bytes that were signed, and the signature."""
    parts = token.split(".", 3) if len(token) <= TOKEN_LENGTH else []
    if len(parts) != 3 or len(parts[0]) > HEADER_LENGTH:
        return None
    decoded = [decode(part) for part in parts]
    if decoded[0] is None or decoded[1] is None or not decoded[2]:
        return None
    header, claims = parse(decoded[0]), parse(decoded[1])
    if header is None or claims is None or not _header_taken(header):
        return None
    return header, claims, f"{parts[0]}.{parts[1]}".encode(), decoded[2]


def _header_taken(header: Mapping[str, Any]) -> bool:
    if "crit" in header or "b64" in header or not isinstance(header.get("alg"), str):
        return False
    kid = header.get("kid", "-")
    return isinstance(kid, str) and 0 < len(kid) <= KID_LENGTH and isinstance(header.get("typ", ""), str)


def _fits(key: Mapping[str, Any]) -> str | None:
    """What the algorithm of a key would be, by its type, curve and `alg`."""
    kty, crv, alg = key.get("kty"), key.get("crv"), key.get("alg")
    if kty == "RSA":
        return "RS256" if alg is None else alg if alg in ("RS256", "PS256") else None
    only = {("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}.get((str(kty), str(crv)))
    return only if alg in (None, only) else None


def _essence(key: Mapping[str, Any]) -> tuple[str, str, str]:
    """What makes a key the key it is; its other members, as `kid`, are names for it."""
    names = {"EC": ("x", "y"), "RSA": ("n", "e"), "OKP": ("x", "x")}[key["kty"]]
    first, second = (key.get(name) for name in names)
    if not isinstance(first, str) or not isinstance(second, str) or len(first) + len(second) > RSA_MOST // 5:
        return key["kty"], "", ""  # no junk is held in memory
    return key["kty"], first, second


@lru_cache(IMPORTED)
def _imported(kty: str, first: str, second: str) -> ECKey | RSAKey | OKPKey | None:
    """The key of an essence; None for what is no key, or too weak."""
    one, two = decode(first), decode(second)
    if one is None or two is None:
        return None
    try:
        if kty == "EC":  # RFC 7518, 6.2.1.2: the full size of a coordinate; that the point is on the curve is checked
            if len(one) != 32 or len(two) != 32:
                return None
            return ECKey.import_key({"kty": "EC", "crv": "P-256", "x": first, "y": second})
        if kty == "OKP":
            return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": first}) if len(one) == 32 else None
        n, e = int.from_bytes(one), int.from_bytes(two)
        if not RSA_LEAST <= n.bit_length() <= RSA_MOST or n % 2 == 0 or e % 2 == 0 or not 3 <= e < 2**32:
            return None
        return RSAKey.import_key({"kty": "RSA", "n": first, "e": second})
    except (JoseError, ValueError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member twice")
    return members


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number without end")
    return value


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _texts(value: Any, depth: int) -> Iterator[str | None]:
    """Every text in a value, names of members too; None where it nests deeper than it may."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        if not depth:
            yield None
            return
        if isinstance(value, dict):
            yield from value
            value = list(value.values())
        for part in value:
            yield from _texts(part, depth - 1)


def _storable(text: str | None) -> bool:
    """Whether a database can hold a text: no NUL, and no half of a surrogate pair."""
    try:
        return text is not None and b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
