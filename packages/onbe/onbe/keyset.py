"""A set of public keys as an agent registers it (RFC 7517, 5): whether each can be used to verify. Pure.

What is taken is what `keel.jose` verifies with: P-256 for ES256, Ed25519 for EdDSA, RSA of 2048 to 8192 bits for RS256
or PS256. Members that nobody publishes are refused, and so is what we do not know: a set is stored as it was given.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol

from onbe.names import KEYS_MOST, KID_LENGTH, RSA_LEAST, RSA_MOST

PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv")
"""Members of a JWK that are secret (RFC 7518, 6; `k` is a symmetric key's)."""
ESSENCE = {"EC": ("crv", "x", "y"), "OKP": ("crv", "x"), "RSA": ("n", "e")}
"""By type: the members that make a key the key it is."""
NAMES = ("kty", "kid", "alg", "use", "key_ops")
"""Members that any key may have."""

P256 = 2**256 - 2**224 + 2**192 + 2**96 - 1
P256_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
ED25519 = 2**255 - 19
ED25519_D = -121665 * pow(121666, -1, ED25519) % ED25519
SMALL_ORDER = (
    0,
    1,
    ED25519 - 1,
    0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
)
"""The y of Ed25519's points of small order: under such a key anybody can sign."""


class Wrong(Protocol):
    """Notes what is wrong with the member at a path below the set."""

    def __call__(self, detail: str, *path: str | int) -> None: ...


def check_set(value: object, wrong: Wrong) -> dict[str, Any] | None:
    """A JWK set that may be stored; None once `wrong` was told why it may not."""
    if not isinstance(value, dict) or not isinstance(value.get("keys"), list):
        wrong('should be a JWK set, {"keys": […]}')
        return None
    bad = False

    def note(detail: str, *path: str | int) -> None:
        nonlocal bad
        bad = True
        wrong(detail, *path)

    for name in value:
        if name != "keys":
            note("is not a member of a JWK set that is taken here", name)
    keys = value["keys"]
    if not 1 <= len(keys) <= KEYS_MOST:
        note(f"should be 1 to {KEYS_MOST} keys", "keys")
        return None
    for place, key in enumerate(keys):
        _check(key, lambda detail, *path, place=place: note(detail, "keys", place, *path))
    _check_names(keys, note)
    return None if bad else value


def thumbprints(jwks: Mapping[str, Any] | None) -> list[str]:
    """The names of a checked set's keys, independent of their `kid` (RFC 7638)."""
    return [_thumbprint(key) for key in jwks["keys"]] if jwks else []


def _thumbprint(key: Mapping[str, Any]) -> str:
    members = {name: key[name] for name in ("kty", *ESSENCE[key["kty"]])}
    digest = hashlib.sha256(json.dumps(members, separators=(",", ":"), sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _check(key: object, wrong: Wrong) -> None:
    if not isinstance(key, dict):
        wrong("should be a JWK, an object")
        return
    secret = [name for name in PRIVATE if name in key]
    for name in secret:
        wrong("is a private member: register the public key alone, and make a new pair, for this one was shown", name)
    kty = key.get("kty")
    if kty == "oct":
        wrong("is a symmetric key, which is not taken: register a public key")
        return
    if not isinstance(kty, str) or kty not in ESSENCE:
        wrong("should be EC, RSA or OKP", "kty")
        return
    for name in key:
        if name not in NAMES and name not in ESSENCE[kty] and name not in PRIVATE:
            wrong(f"is not a member of an {kty} key that is taken here: leave it out", name)
    _check_use(key, wrong)
    {"EC": _check_ec, "OKP": _check_okp, "RSA": _check_rsa}[kty](key, wrong)


def _check_use(key: Mapping[str, Any], wrong: Wrong) -> None:
    if key.get("use", "sig") != "sig":
        wrong("should be sig, or not there", "use")
    if key.get("key_ops", ["verify"]) != ["verify"]:
        wrong('should be ["verify"], or not there', "key_ops")
    kid = key.get("kid", "-")
    if not isinstance(kid, str) or not 1 <= len(kid) <= KID_LENGTH or not kid.isprintable():
        wrong(f"should be 1 to {KID_LENGTH} printable characters", "kid")


def _check_names(keys: list[Any], wrong: Wrong) -> None:
    """Among several keys each is found by its `kid`."""
    seen: set[str] = set()
    for place, key in enumerate(keys):
        kid = key.get("kid") if isinstance(key, dict) else None
        if isinstance(key, dict) and kid is None and len(keys) > 1:
            wrong("needs a kid, as there are several keys", "keys", place)
        if isinstance(kid, str):
            if kid in seen:
                wrong("is another key's too", "keys", place, "kid")
            seen.add(kid)


def _check_alg(key: Mapping[str, Any], fit: tuple[str, ...], wrong: Wrong) -> None:
    if key.get("alg", fit[0]) not in fit:
        wrong(f"should be {' or '.join(fit)} for this key, or not there", "alg")


def _check_ec(key: Mapping[str, Any], wrong: Wrong) -> None:
    if key.get("crv") != "P-256":
        wrong("should be P-256", "crv")
        return
    _check_alg(key, ("ES256",), wrong)
    x, y = (_octets(key, name, 32, wrong) for name in ("x", "y"))
    if x is not None and y is not None and not _on_p256(int.from_bytes(x), int.from_bytes(y)):
        wrong("is not a point of the curve P-256")


def _on_p256(x: int, y: int) -> bool:
    return x < P256 and y < P256 and (y * y - (x**3 - 3 * x + P256_B)) % P256 == 0


def _check_okp(key: Mapping[str, Any], wrong: Wrong) -> None:
    if key.get("crv") != "Ed25519":
        wrong("should be Ed25519", "crv")
        return
    _check_alg(key, ("EdDSA",), wrong)
    x = _octets(key, "x", 32, wrong)
    if x is not None and not _on_ed25519(int.from_bytes(x, "little") % 2**255):
        wrong("is not a public key of Ed25519", "x")


def _on_ed25519(y: int) -> bool:
    """Whether there is a point of this y, one under which not everybody can sign (RFC 8032, 5.1.3)."""
    if y >= ED25519 or y in SMALL_ORDER:
        return False
    square = (y * y - 1) * pow(ED25519_D * y * y + 1, -1, ED25519) % ED25519
    return pow(square, (ED25519 - 1) // 2, ED25519) == 1


def _check_rsa(key: Mapping[str, Any], wrong: Wrong) -> None:
    _check_alg(key, ("RS256", "PS256"), wrong)
    n, e = _octets(key, "n", None, wrong), _octets(key, "e", None, wrong)
    if n is not None:
        modulus = int.from_bytes(n)
        if not RSA_LEAST <= modulus.bit_length() <= RSA_MOST:
            wrong(f"should be a modulus of {RSA_LEAST} to {RSA_MOST} bits", "n")
        elif modulus % 2 == 0:
            wrong("is no modulus of an RSA key", "n")
    if e is not None and (not 3 <= int.from_bytes(e) < 2**32 or int.from_bytes(e) % 2 == 0):
        wrong("should be an odd exponent from 3 to 2^32, as AQAB", "e")


def _octets(key: Mapping[str, Any], name: str, length: int | None, wrong: Wrong) -> bytes | None:
    """The bytes of a member in base64url without padding, spelled the one canonical way."""
    value = key.get(name)
    data = None
    if isinstance(value, str) and 0 < len(value) <= RSA_MOST // 5:
        try:
            data = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
        except ValueError:
            data = None
    if not data or base64.urlsafe_b64encode(data).rstrip(b"=").decode() != value:
        wrong("should be base64url without padding", name)
        return None
    if length is not None and len(data) != length:
        wrong(f"should be {length} bytes in base64url", name)
        return None
    return data
