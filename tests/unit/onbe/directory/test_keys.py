"""Which public keys an agent may register: those that can be verified with, and nothing secret."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, SECP384R1, generate_private_key
from tests.unit.onbe.directory.samples import (
    BOUNDS,
    EC,
    NOW,
    OKP,
    RSA,
    ec_key,
    encoded,
    judged,
    okp_key,
    registered,
    rsa_key,
)

from keel import jose
from onbe import keyset
from onbe.directory.decide import changes, decide_change, recorded_form
from onbe.directory.model import Registration

PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv")
P = 2**255 - 19
SMALL = (0, 1, P - 1, *keyset.SMALL_ORDER[3:])


def little(y: int, sign: int = 0) -> str:
    return base64.urlsafe_b64encode((y | sign << 255).to_bytes(32, "little")).rstrip(b"=").decode()


def of(*keys: Any) -> dict[str, str]:
    return judged(jwks={"keys": list(keys)})


@pytest.mark.parametrize(
    "key",
    [
        EC, OKP, RSA, {**EC, "alg": "ES256"}, {**OKP, "alg": "EdDSA"}, {**RSA, "alg": "PS256"}, {**RSA, "alg": "RS256"},
        {**EC, "use": "sig"}, {**EC, "key_ops": ["verify"]}, {**EC, "kid": "é" * 256}, rsa_key(3072),
    ],
)  # fmt: skip
def test_a_key_that_can_be_verified_with_is_taken(key: dict[str, Any]) -> None:
    assert of(key) == {}
    assert jose.algorithm(key), "and jose takes it"


def point(curve: Any) -> dict[str, str]:
    numbers = generate_private_key(curve).public_key().public_numbers()
    size = (numbers.curve.key_size + 7) // 8
    return {"x": encoded(numbers.x, size), "y": encoded(numbers.y, size)}


REFUSED: list[tuple[str, Any, set[str]]] = [
    ("no object", "x", {""}),
    ("null", None, {""}),
    ("symmetric", {"kty": "oct", "k": "c2VjcmV0"}, {"", "/k"}),
    ("symmetric without its secret", {"kty": "oct"}, {""}),
    ("no type", {"x": EC["x"]}, {"/kty"}),
    ("a type that is no text", {**EC, "kty": ["EC"]}, {"/kty"}),
    ("post-quantum", {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"}, {"/kty"}),
    ("P-384", {"kty": "EC", "crv": "P-384", **point(SECP384R1())}, {"/crv"}),
    ("secp256k1", {"kty": "EC", "crv": "secp256k1", **point(SECP256K1())}, {"/crv"}),
    ("a point of another curve", {"kty": "EC", "crv": "P-256", **point(SECP256K1())}, {""}),
    ("a point off the curve", {**EC, "y": EC["x"]}, {""}),
    ("the origin", {**EC, "x": "A" * 43, "y": "A" * 43}, {""}),
    ("a coordinate beyond the field", {**EC, "x": encoded(2**256 - 1, 32)}, {""}),
    ("a short coordinate", {**EC, "x": encoded(5, 31)}, {"/x"}),
    ("no y", {name: EC[name] for name in ("kty", "crv", "x")}, {"/y"}),
    ("padded", {**EC, "x": EC["x"] + "="}, {"/x"}),
    ("base64 of the other alphabet", {**EC, "x": "+" + EC["x"][1:]}, {"/x"}),
    ("bits beyond the last byte", {**OKP, "x": "A" * 42 + "B"}, {"/x"}),
    ("not ASCII", {**EC, "x": "é" * 43}, {"/x"}),
    ("Ed448", {**OKP, "crv": "Ed448"}, {"/crv"}),
    ("X25519", {**OKP, "crv": "X25519"}, {"/crv"}),
    ("beyond the field of Ed25519", {**OKP, "x": little(P + 3)}, {"/x"}),
    ("RSA of 1024 bits", rsa_key(1024), {"/n"}),
    ("RSA of 2047 bits", {**RSA, "n": encoded(2**2046 + 1)}, {"/n"}),
    ("RSA without end", {**RSA, "n": encoded(2**8192 + 1)}, {"/n"}),
    ("RSA of megabits", {**RSA, "n": "A" * 50000}, {"/n"}),
    ("an even modulus", {**RSA, "n": encoded(2**2047 + 2)}, {"/n"}),
    ("exponent 1", {**RSA, "e": "AQ"}, {"/e"}),
    ("an even exponent", {**RSA, "e": "Ag"}, {"/e"}),
    ("an exponent without end", {**RSA, "e": encoded(2**64 + 1)}, {"/e"}),
    ("another algorithm", {**EC, "alg": "ES384"}, {"/alg"}),
    ("none", {**EC, "alg": "none"}, {"/alg"}),
    ("HMAC with a public key", {**RSA, "alg": "HS256"}, {"/alg"}),
    ("an algorithm that is no text", {**EC, "alg": {}}, {"/alg"}),
    ("null as algorithm", {**EC, "alg": None}, {"/alg"}),
    ("for encryption", {**EC, "use": "enc"}, {"/use"}),
    ("to sign with", {**EC, "key_ops": ["sign"]}, {"/key_ops"}),
    ("an empty kid", {**EC, "kid": ""}, {"/kid"}),
    ("a kid of lines", {**EC, "kid": "a\nb"}, {"/kid"}),
    ("a kid that is none", {**EC, "kid": 1}, {"/kid"}),
    ("a certificate", {**EC, "x5c": ["MII"]}, {"/x5c"}),
    ("a certificate's address", {**EC, "x5u": "https://a"}, {"/x5u"}),
    ("a member of another type", {**EC, "n": RSA["n"]}, {"/n"}),
    ("a name nobody knows", {**EC, "secret": "x"}, {"/secret"}),
]


@pytest.mark.parametrize(("key", "where"), [pytest.param(key, where, id=name) for name, key, where in REFUSED])
def test_a_key_that_is_not_usable_is_refused_by_its_place(key: Any, where: set[str]) -> None:
    good = {**EC, "kid": "good"}
    bad = {"kid": "bad", **key} if isinstance(key, dict) else key
    found = of(good, bad)
    assert set(found) == {f"#/jwks/keys/1{one}" for one in where}


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("key", [EC, OKP, RSA])
def test_a_private_member_is_refused_by_name_whatever_it_holds(name: str, key: dict[str, Any]) -> None:
    for value in ("c2VjcmV0", "", None, 1, [{"r": "c2VjcmV0"}]):
        found = of({**key, name: value})
        assert list(found) == [f"#/jwks/keys/0/{name}"]
        assert "private member" in found[f"#/jwks/keys/0/{name}"]


@pytest.mark.parametrize("y", SMALL)
@pytest.mark.parametrize("sign", [0, 1])
def test_a_key_under_which_anybody_could_sign_is_refused(y: int, sign: int) -> None:
    assert list(of({**OKP, "x": little(y, sign)})) == ["#/jwks/keys/0/x"]


def test_the_identity_of_ed25519_would_have_let_anybody_sign() -> None:
    """Why points of small order are refused: cryptography itself takes them."""
    forged = (1).to_bytes(32, "little") + bytes(32)
    ed25519.Ed25519PublicKey.from_public_bytes((1).to_bytes(32, "little")).verify(forged, b"whatever")


def test_real_keys_of_ed25519_are_all_taken() -> None:
    assert of(*(okp_key(kid=str(number)) for number in range(20))) == {}


def test_of_several_keys_each_has_a_kid_of_its_own() -> None:
    assert list(of(EC, {**OKP, "kid": "a"})) == ["#/jwks/keys/0"]
    assert list(of({**EC, "kid": "a"}, {**OKP, "kid": "a"})) == ["#/jwks/keys/1/kid"]
    assert of(*(ec_key(kid=f"k{number}") for number in range(20))) == {}
    assert list(judged(jwks={"keys": [EC], "extra": 1})) == ["#/jwks/extra"]


def test_a_change_of_keys_is_recorded_by_their_thumbprints() -> None:
    old = registered(jwks={"keys": [{**RSA, "kid": "a"}, {**OKP, "kid": "b"}]})
    new = decide_change(old, {"jwks": {"keys": [EC]}}, BOUNDS, NOW)
    assert isinstance(new, Registration)
    said = changes(old, new)
    assert said == {"jwks": {"old": [jose.thumbprint(RSA), jose.thumbprint(OKP)], "new": [jose.thumbprint(EC)]}}
    assert EC["x"] not in str(recorded_form(new))
