"""Forged, bent and swollen tokens: each is refused, with the reason that fits it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry
from tests.unit.keel.jose.making import CLAIMS, Jwk, honest, key, part, public, signed

from keel import jose
from keel.jose import TOKEN_LENGTH

KINDS = [("P-256", "ES256", {}), ("Ed25519", "EdDSA", {}), ("rsa-2048", "RS256", {}),
         ("rsa-2048", "RS256", {"alg": "RS256"}), ("rsa-2048", "PS256", {"alg": "PS256"}),
         ("P-256", "ES256", {"alg": "ES256"}), ("Ed25519", "EdDSA", {"alg": "EdDSA"}),
         ("P-256", "ES256", {"use": "sig"}), ("P-256", "ES256", {"key_ops": ["verify"]})]  # fmt: skip
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # the order of P-256


@pytest.mark.parametrize("kind, alg, more", KINDS)
def test_an_honest_token_is_taken(kind: str, alg: str, more: dict[str, Any]) -> None:
    got = jose.verified(honest(kind, alg), [public(kind, **more)])
    assert isinstance(got, jose.Jwt)
    assert (got.claims, got.header) == (CLAIMS, {"alg": alg, "kid": kind})
    assert jose.peek(honest(kind, alg)) == jose.Peek(kind, "agent", CLAIMS)


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", " none", "none ", ""])
@pytest.mark.parametrize("signature", ["", "AA", "real"])
def test_a_token_of_no_algorithm_is_refused(name: str, signature: str) -> None:
    front = f"{part({'alg': name, 'kid': 'P-256'})}.{part(CLAIMS)}"
    real = signed("P-256", "ES256", {"alg": name, "kid": "P-256"}).rpartition(".")[2]
    got = jose.verified(f"{front}.{real if signature == 'real' else signature}", [public("P-256")])
    assert got == ("algorithm" if signature else "malformed")


def secrets_of(kind: str) -> list[bytes]:
    """What a server that takes a public key for a shared secret would have held it as."""
    raw = key(kind).public_key
    jwk = public(kind)
    formats = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = raw.public_bytes(serialization.Encoding.PEM, formats)
    return [
        pem, pem.strip(), raw.public_bytes(serialization.Encoding.DER, formats), json.dumps(jwk).encode(),
        json.dumps(jwk, separators=(",", ":")).encode(), str(jwk.get("x", jwk.get("n"))).encode(), b"", b"secret",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["P-256", "Ed25519", "rsa-2048"])
@pytest.mark.parametrize("bits", [256, 384, 512])
def test_a_public_key_is_never_a_shared_secret(kind: str, bits: int) -> None:
    for secret in secrets_of(kind):
        front = f"{part({'alg': f'HS{bits}', 'kid': kind})}.{part(CLAIMS)}"
        mac = hmac.new(secret, front.encode(), getattr(hashlib, f"sha{bits}")).digest()
        assert jose.verified(f"{front}.{jose.encode(mac)}", [public(kind)]) == "algorithm"
        # … nor when the header is honest about another algorithm than the one it was made with
        front = f"{part({'alg': KINDS_BY[kind], 'kid': kind})}.{part(CLAIMS)}"
        mac = hmac.new(secret, front.encode(), getattr(hashlib, f"sha{bits}")).digest()
        assert jose.verified(f"{front}.{jose.encode(mac)}", [public(kind)]) == "signature"


KINDS_BY = {"P-256": "ES256", "Ed25519": "EdDSA", "rsa-2048": "RS256"}


@pytest.mark.parametrize("alg", ["HS256", "ES256", "RS256", "none"])
def test_a_symmetric_key_in_a_set_is_as_if_it_were_not_there(alg: str) -> None:
    secret = {"kty": "oct", "k": jose.encode(b"s" * 32), "kid": "P-256", "alg": alg}
    front = f"{part({'alg': alg, 'kid': 'P-256'})}.{part(CLAIMS)}"
    token = f"{front}.{jose.encode(hmac.new(b's' * 32, front.encode(), hashlib.sha256).digest())}"
    assert jose.verified(token, [secret]) == ("algorithm" if alg in ("HS256", "none") else "key_unknown")


@pytest.mark.parametrize("member", ["jwk", "jku", "x5u", "x5c", "x5t", "x5t#S256"])
def test_a_key_that_the_header_brings_along_is_not_looked_at(member: str) -> None:
    theirs = public("P-256+", kid="P-256")
    bring = {"jwk": theirs, "jku": "https://evil.example.com/jwks", "x5c": ["MIIB"]}.get(member, "https://evil/")
    got = jose.verified(signed("P-256+", "ES256", {"alg": "ES256", "kid": "P-256", member: bring}), [public("P-256")])
    assert got == "signature"
    assert jose.verified(signed("P-256+", "ES256", {"alg": "ES256", member: bring}), [public("P-256")]) == "signature"
    token = signed("P-256", "ES256", {"alg": "ES256", "kid": "P-256", member: bring})
    assert isinstance(jose.verified(token, [public("P-256")]), jose.Jwt)


@pytest.mark.parametrize("more", [
    {"crit": ["exp"]}, {"crit": []}, {"crit": None}, {"crit": ["b64"], "b64": False}, {"b64": False}, {"b64": True},
    {"crit": ["alg"]}, {"crit": "b64"},
])  # fmt: skip
def test_what_a_header_calls_critical_is_not_understood_here(more: dict[str, Any]) -> None:
    token = signed("P-256", "ES256", {"alg": "ES256", "kid": "P-256", **more})
    assert jose.verified(token, [public("P-256")]) == "malformed"
    assert jose.peek(token) is None


@pytest.mark.parametrize("kind, alg, said, more", [
    ("rsa-2048", "PS256", "PS256", {}),  # no alg: RS256 alone
    ("rsa-2048", "PS256", "RS256", {}),
    ("rsa-2048", "RS256", "PS256", {}),
    ("rsa-2048", "RS256", "RS256", {"alg": "PS256"}),
    ("rsa-2048", "PS256", "PS256", {"alg": "RS256"}),
    ("rsa-2048", "RS512", "RS512", {}),
    ("rsa-2048", "RS256", "ES256", {}),
    ("P-256", "ES256", "EdDSA", {}),
    ("P-256", "ES256", "ES384", {}),
    ("P-256", "ES256", "ES256K", {}),
    ("P-256", "ES256", "es256", {}),
    ("Ed25519", "EdDSA", "Ed25519", {}),
    ("Ed25519", "EdDSA", "ES256", {}),
])  # fmt: skip
def test_the_header_says_the_algorithm_of_the_key_or_is_refused(
    kind: str, alg: str, said: str, more: dict[str, Any]
) -> None:
    got = jose.verified(signed(kind, alg, {"alg": said, "kid": kind}), [public(kind, **more)])
    assert got in ("algorithm", "signature")
    if said != "RS256" or more:
        assert got == "algorithm"


UNUSABLE: dict[str, Callable[[], Jwk]] = {
    "rsa-1024": lambda: public("rsa-1024"),
    "P-384": lambda: public("P-384"),
    "P-521": lambda: public("P-521"),
    "P-256 called secp256k1": lambda: public("P-256", crv="secp256k1"),
    "P-256 called P-384": lambda: public("P-256", crv="P-384"),
    "no curve": lambda: public("P-256", crv=None),
    "X25519": lambda: public("Ed25519", crv="X25519"),
    "Ed448": lambda: public("Ed25519", crv="Ed448"),
    "RSA with an EC alg": lambda: public("rsa-2048", alg="ES256"),
    "RSA for encryption": lambda: public("rsa-2048", alg="RSA-OAEP"),
    "RSA with SHA-1": lambda: public("rsa-2048", alg="RS1"),
    "EC for agreement": lambda: public("P-256", alg="ECDH-ES"),
    "EC with HS256": lambda: public("P-256", alg="HS256"),
    "use enc": lambda: public("P-256", use="enc"),
    "use a list": lambda: public("P-256", use=["sig"]),
    "use SIG": lambda: public("P-256", use="SIG"),
    "key_ops sign": lambda: public("P-256", key_ops=["sign"]),
    "key_ops a text": lambda: public("P-256", key_ops="verify"),
    "private": lambda: {**key("P-256").as_dict(private=True), "kid": "P-256"},
    "private RSA": lambda: {**key("rsa-2048").as_dict(private=True), "kid": "rsa-2048"},
    "x padded": lambda: public("P-256", x=public("P-256")["x"] + "="),
    "x too long": lambda: public("P-256", x=jose.encode(b"\0" + (jose.decode(public("P-256")["x"]) or b""))),
    "x a number": lambda: public("P-256", x=1),
    "x missing": lambda: public("P-256", x=None),
    "x huge": lambda: public("P-256", x="A" * 100_000),
    "not on the curve": lambda: public("P-256", x=public("P-256")["y"], y=public("P-256")["x"]),
    "the point of zeros": lambda: public("P-256", x=jose.encode(bytes(32)), y=jose.encode(bytes(32))),
    "n even": lambda: public("rsa-2048", n=jose.encode(b"\xff" * 255 + b"\xfe")),
    "n of 16384 bits": lambda: public("rsa-2048", n=jose.encode(b"\xff" * 2048)),
    "e of 1": lambda: public("rsa-2048", e="AQ"),
    "e even": lambda: public("rsa-2048", e="Ag"),
    "e huge": lambda: public("rsa-2048", e=jose.encode(b"\xff" * 64)),
    "e empty": lambda: public("rsa-2048", e=""),
    "kty missing": lambda: public("P-256", kty=None),
    "kty a list": lambda: public("P-256", kty=["EC"]),
    "kty lower": lambda: public("P-256", kty="ec"),
    "kid a number": lambda: public("P-256", kid=7),
    "kid huge": lambda: public("P-256", kid="k" * 300),
    "alg a list": lambda: public("P-256", alg=["ES256"]),
    "nothing": dict,
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_key_that_is_not_for_this_is_as_if_it_were_not_there(name: str) -> None:
    bad = UNUSABLE[name]()
    assert jose.algorithm(bad) is None
    for kind, alg in (("P-256", "ES256"), ("rsa-2048", "RS256")):
        for kid in (bad.get("kid"), None):
            said = kid if isinstance(kid, str) and len(kid) <= 256 else None
            assert jose.verified(honest(kind, alg, kid=said), [bad]) == "key_unknown"
    # … and hides no good one beside it
    assert isinstance(jose.verified(honest("Ed25519", "EdDSA"), [bad, public("Ed25519")]), jose.Jwt)


def es256(change: Any) -> str:
    """An honest token whose signature (r, s) was changed into other bytes."""
    front, _, sig = honest("P-256", "ES256").rpartition(".")
    raw = jose.decode(sig)
    assert raw is not None
    return f"{front}.{jose.encode(change(raw))}"


def der(raw: bytes) -> bytes:
    return encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))


@pytest.mark.parametrize("change", [
    der, lambda raw: bytes(64), lambda raw: bytes(32) + raw[32:], lambda raw: raw[:32] + bytes(32),
    lambda raw: raw[:63], lambda raw: raw + b"\0", lambda raw: b"\0" + raw, lambda raw: raw * 2, lambda raw: raw[:1],
    lambda raw: N.to_bytes(32) + raw[32:], lambda raw: raw[:32] + N.to_bytes(32), lambda raw: b"\xff" * 64,
    lambda raw: raw[32:] + raw[:32], lambda raw: bytes([raw[0] ^ 1]) + raw[1:],
    lambda raw: b"\0" + raw[:32] + b"\0" + raw[32:], lambda raw: (1).to_bytes(32) * 2,
])  # fmt: skip
def test_a_signature_of_another_shape_or_value_is_wrong(change: Any) -> None:
    assert jose.verified(es256(change), [public("P-256")]) == "signature"


@pytest.mark.parametrize("kind, alg", [("Ed25519", "EdDSA"), ("rsa-2048", "RS256"), ("P-256", "ES256")])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 255, 256, 257, 8000])
def test_a_signature_of_any_length_is_just_wrong(kind: str, alg: str, length: int) -> None:
    front = honest(kind, alg).rpartition(".")[0]
    assert jose.verified(f"{front}.{jose.encode(b'x' * length)}", [public(kind)]) == "signature"


def test_a_pss_signature_of_another_salt_is_wrong() -> None:
    from cryptography.hazmat.primitives.asymmetric import padding

    front = honest("rsa-2048", "PS256").rpartition(".")[0]
    private = key("rsa-2048").private_key
    assert isinstance(private, rsa.RSAPrivateKey)
    for salt in (0, 20, 31, 33):
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), salt)
        sig = private.sign(front.encode(), pss, hashes.SHA256())
        assert jose.verified(f"{front}.{jose.encode(sig)}", [public("rsa-2048", alg="PS256")]) == "signature"


@pytest.mark.parametrize("which", [0, 1])
def test_what_was_signed_is_what_is_read(which: int) -> None:
    pieces = honest("P-256", "ES256").split(".")
    other = honest("P-256", "ES256", {**CLAIMS, "sub": "another"}, typ="JWT").split(".")
    pieces[which] = other[which]
    assert jose.verified(".".join(pieces), [public("P-256")]) == "signature"


HEADERS: dict[str, Any] = {
    "a list": [], "null": None, "a number": 1, "a text": '"alg"', "empty": "", "spaces": "  ", "half": '{"alg":"ES256"',
    "two values": '{"alg":"ES256"}{}', "trailing": '{"alg":"ES256"}x', "a comma": '{"alg":"ES256",}',
    "a comment": '{"alg":"ES256"/**/}', "single quotes": "{'alg':'ES256'}",
    "alg twice": '{"alg":"none","alg":"ES256","kid":"P-256"}',
    "alg twice, escaped": '{"alg":"none","al\\u0067":"ES256","kid":"P-256"}',
    "kid twice": '{"alg":"ES256","kid":"x","kid":"P-256"}',
    "twice inside": '{"alg":"ES256","kid":"P-256","x":{"a":1,"a":2}}',
    "NaN": '{"alg":"ES256","kid":"P-256","x":NaN}', "Infinity": '{"alg":"ES256","kid":"P-256","x":-Infinity}',
    "no alg": {"kid": "P-256"}, "alg null": {"alg": None}, "alg a list": {"alg": ["ES256"]}, "alg a number": {"alg": 1},
    "kid null": {"alg": "ES256", "kid": None}, "kid a number": {"alg": "ES256", "kid": 1},
    "kid a list": {"alg": "ES256", "kid": ["P-256"]}, "kid empty": {"alg": "ES256", "kid": ""},
    "kid long": {"alg": "ES256", "kid": "k" * 257}, "kid with NUL": {"alg": "ES256", "kid": "a\0b"},
    "typ a list": {"alg": "ES256", "kid": "P-256", "typ": ["JWT"]},
    "BOM": b'\xef\xbb\xbf{"alg":"ES256","kid":"P-256"}', "UTF-16": '{"alg":"ES256","kid":"P-256"}'.encode("utf-16"),
    "Latin-1": b'{"alg":"ES256","kid":"\xe9"}', "overlong": b'{"alg":"ES256","kid":"\xc0\xae"}',
    "half a surrogate pair": '{"alg":"ES256","kid":"\\ud800"}',
    "deep": '{"alg":"ES256","kid":"P-256","x":' + "[" * 400 + "]" * 400 + "}",
    "huge": {"alg": "ES256", "kid": "P-256", "x": "x" * 5000},
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_is_no_strict_json_is_malformed(name: str) -> None:
    token = signed("P-256", "ES256", HEADERS[name] if name != "null" else b"null")
    assert jose.peek(token) is None
    assert jose.verified(token, [public("P-256")]) == "malformed"


CLAIM_TEXTS: dict[str, Any] = {
    "a list": [], "a text": b'"x"', "null": b"null", "empty": b"", "twice": b'{"sub":"a","sub":"b"}',
    "twice, escaped": b'{"sub":"a","\\u0073ub":"b"}', "twice inside": b'{"act":{"sub":"a","sub":"b"}}',
    "NaN": b'{"exp":NaN}', "Infinity": b'{"exp":Infinity}', "1e999": b'{"exp":1e999}', "-1e999": b'{"exp":-1e999}',
    "a number of 5000 digits": b'{"exp":' + b"9" * 5000 + b"}", "UTF-16": '{"sub":"a"}'.encode("utf-16-le"),
    "NUL": b'{"sub":"a\\u0000b"}', "NUL in a name": b'{"a\\u0000b":1}', "NUL deep": b'{"a":[{"b":["\\u0000"]}]}',
    "half a pair": b'{"sub":"\\udc00"}', "half a pair in a name": b'{"\\udc00":1}', "a raw NUL": b'{"sub":"a\0b"}',
    "a raw newline": b'{"sub":"a\nb"}', "deep": b'{"x":' * 20 + b"1" + b"}" * 20,
    "deeper": b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "unclosed": b'{"x":' + b"[" * 5000,
    "invalid UTF-8": b'{"sub":"\xff"}', "a surrogate in UTF-8": b'{"sub":"\xed\xa0\x80"}',
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIM_TEXTS)
def test_claims_that_are_no_strict_json_are_malformed(name: str) -> None:
    token = signed("P-256", "ES256", {"alg": "ES256", "kid": "P-256"}, CLAIM_TEXTS[name])
    assert jose.peek(token) is None
    assert jose.verified(token, [public("P-256")]) == "malformed"


def test_a_whole_surrogate_pair_and_control_characters_are_texts_like_any() -> None:
    token = signed(
        "P-256", "ES256", {"alg": "ES256", "kid": "P-256"}, b'{"sub":"\\ud83d\\ude00\\u0001","iss":"\xc3\xa9"}'
    )
    got = jose.verified(token, [public("P-256")])
    assert isinstance(got, jose.Jwt)
    assert got.claims == {"sub": "😀\x01", "iss": "é"}


def spellings() -> list[str]:
    token = honest("P-256", "ES256")
    header, claims, sig = token.split(".")
    tail = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    bent = sig[:-1] + tail[tail.index(sig[-1]) + 1]  # the same bytes: the bits that nobody reads differ
    assert base64.urlsafe_b64decode(bent + "==") == base64.urlsafe_b64decode(sig + "==")
    padded = [f"{header}=.{claims}.{sig}", f"{header}.{claims}=.{sig}", f"{header}.{claims}.{sig}=", f"{token}=="]
    spaced = [f" {token}", f"{token} ", f"{token}\n", f"{header}\n.{claims}.{sig}", f"{header}. {claims}.{sig}"]
    strange = [token.replace("e", "е", 1), token + "\0", f"{header}.{claims}.{sig[:10]}\n{sig[10:]}", f"\ufeff{token}"]
    standard = [f"{header}.{claims}.{sig[:-4]}++//", f"{header}.{claims}.{sig[:-4]}+/+/"]
    counts = [f"{token}.", f".{token}", f"{token}.{sig}", f"{header}.{claims}", f"{header}.{claims}.",
              f"{header}..{sig}",
              f".{claims}.{sig}", header, "", ".", "..", "...", "." * 16_000, f"{header}.a.b.c.d"]  # fmt: skip
    return [f"{header}.{claims}.{bent}", *padded, *spaced, *strange, *standard, *counts]


@pytest.mark.parametrize("index", range(len(spellings())))
def test_a_token_has_one_spelling(index: int) -> None:
    token = spellings()[index]
    assert jose.verified(token, [public("P-256")]) == "malformed"


@pytest.mark.parametrize("form", ["general", "flattened"])
def test_the_json_serialization_is_not_taken(form: str) -> None:
    header, claims, sig = honest("P-256", "ES256").split(".")
    one = {"protected": header, "signature": sig}
    token = json.dumps({"payload": claims, **(one if form == "flattened" else {"signatures": [one]})})
    assert jose.verified(token, [public("P-256")]) == "malformed"


def test_the_longest_token_is_taken_and_one_more_is_not() -> None:
    def sized(extra: int) -> str:
        return honest("P-256", "ES256", {**CLAIMS, "pad": "x" * extra})

    fits = next(sized(extra) for extra in range(12_400, 11_000, -1) if len(sized(extra)) <= TOKEN_LENGTH)
    assert TOKEN_LENGTH - len(fits) < 4
    assert isinstance(jose.verified(fits, [public("P-256")]), jose.Jwt)
    assert jose.verified(sized(12_400), [public("P-256")]) == "malformed"
    assert jose.verified("x" * 50_000_000, [public("P-256")]) == "malformed"


def test_a_token_with_a_key_id_is_held_against_the_keys_of_that_id_alone() -> None:
    keys = [public("P-256"), public("P-256+"), public("Ed25519")]
    assert isinstance(jose.verified(honest("P-256+", "ES256"), keys), jose.Jwt)
    assert jose.verified(honest("P-256+", "ES256", kid="P-256"), keys) == "signature"
    assert jose.verified(honest("P-256+", "ES256", kid="other"), keys) == "key_unknown"
    assert jose.verified(honest("P-256+", "ES256", kid="P-256+ "), keys) == "key_unknown"
    assert jose.verified(honest("P-256", "ES256"), [public("P-256", kid=None)]) == "key_unknown"


def test_a_token_without_a_key_id_is_taken_where_there_is_one_usable_key_alone() -> None:
    bare = honest("P-256", "ES256", kid=None)
    assert isinstance(jose.verified(bare, [public("P-256")]), jose.Jwt)
    assert isinstance(jose.verified(bare, [public("P-256", kid=None)]), jose.Jwt)
    assert isinstance(jose.verified(bare, [public("P-256"), public("rsa-1024")]), jose.Jwt)
    assert jose.verified(bare, [public("P-256"), public("Ed25519")]) == "key_unknown"
    assert jose.verified(bare, []) == "key_unknown"


def test_two_keys_of_one_id_are_told_apart_by_their_algorithm_and_few_are_tried() -> None:
    keys = [public("rsa-2048", kid="same"), public("P-256", kid="same"), public("P-256+", kid="same")]
    for kind, alg in (("P-256", "ES256"), ("P-256+", "ES256"), ("rsa-2048", "RS256")):
        assert isinstance(jose.verified(honest(kind, alg, kid="same"), keys), jose.Jwt)
    many = [public("P-256" + "+" * count, kid="same") for count in range(2, 2 + jose.SAME_KID)]
    assert jose.verified(honest("P-256", "ES256", kid="same"), [*many, public("P-256", kid="same")]) == "signature"


def test_a_thumbprint_is_that_of_rfc_7638() -> None:
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjB"
        "ZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8"
        "KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_"
        "xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    example = {"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"}
    assert jose.thumbprint(example) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    for kind in ("P-256", "Ed25519", "rsa-2048"):
        assert jose.thumbprint(public(kind)) == key(kind).thumbprint()


def test_keys_of_other_sizes_work_and_of_too_small_ones_do_not() -> None:
    assert isinstance(jose.verified(honest("rsa-3072", "RS256"), [public("rsa-3072")]), jose.Jwt)
    assert jose.verified(honest("rsa-1024", "RS256"), [public("rsa-1024")]) == "key_unknown"
    weak = RSAKey.import_key(rsa.generate_private_key(65537, 2047)).as_dict(private=False)
    assert jose.algorithm(weak) is None
    assert isinstance(key("P-256"), ECKey)
    assert isinstance(key("P-256").public_key, ec.EllipticCurvePublicKey)
    assert JWSRegistry.algorithms["ES256"].name == "ES256"
