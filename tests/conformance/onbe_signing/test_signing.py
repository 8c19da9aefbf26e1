"""What every Signing does: one suite, over the keys of this host and over the fake."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from joserfc.jws import JWSRegistry

from keel import jose
from keel.testing import FakeClock
from onbe.drivers.signing.fake import FakeSigning
from onbe.drivers.signing.folder import KeyFolder
from onbe.drivers.signing.local import LocalSigning
from onbe.drivers.signing.protocol import Signing
from onbe.drivers.signing.ring import SigningKey
from onbe.settings import DevelopmentSettings, OnbeSettings, ServerSettings

ISSUER = "https://onbe.example.com"
CLAIMS = {"iss": ISSUER, "sub": "ada", "aud": "https://tools.example.com", "exp": 1_800_000_000, "ö": [1, None, True]}


@dataclass(frozen=True)
class Under:
    """A driver under test, and how its key is replaced."""

    signing: Signing
    rotate: Callable[[], object]


@pytest.fixture(params=["local", "fake"])
def under(request: pytest.FixtureRequest, tmp_path: Path) -> Under:
    if request.param == "fake":
        fake = FakeSigning(ISSUER)
        return Under(fake, fake.rotate)
    clock = FakeClock()
    KeyFolder(tmp_path / "keys").make(first=True)
    local = LocalSigning(OnbeSettings(server=ServerSettings(public_url=ISSUER)), tmp_path, clock)

    def rotate() -> None:
        KeyFolder(tmp_path / "keys").make(first=False)
        clock.advance(1)

    return Under(local, rotate)


def parts(token: str) -> tuple[Mapping[str, object], Mapping[str, object]]:
    header, claims = (jose.decode(part) for part in token.split(".")[:2])
    assert header is not None
    assert claims is not None
    return json.loads(header), json.loads(claims)


def test_what_is_signed_says_alg_typ_and_kid_and_nothing_else(under: Under) -> None:
    header, claims = parts(under.signing.sign(CLAIMS))
    assert header == {"alg": "ES256", "typ": "at+jwt", "kid": under.signing.jwks()["keys"][0]["kid"]}
    assert claims == CLAIMS


def test_what_is_signed_is_known_again(under: Under) -> None:
    assert under.signing.claims(under.signing.sign(CLAIMS)) == CLAIMS


def test_the_published_keys_verify_it_and_hold_no_private_part(under: Under) -> None:
    keys = under.signing.jwks()["keys"]
    assert isinstance(jose.verified(under.signing.sign(CLAIMS), keys), jose.Jwt)
    for key in keys:
        assert set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"}
        assert key["kid"] == jose.thumbprint(key)
    json.dumps(under.signing.jwks())


def test_after_a_rotation_the_new_key_signs_and_what_the_old_one_signed_stays_good(under: Under) -> None:
    before = under.signing.sign(CLAIMS)
    under.rotate()
    after = under.signing.sign(CLAIMS)
    assert parts(before)[0]["kid"] != parts(after)[0]["kid"]
    assert under.signing.claims(before) == under.signing.claims(after) == CLAIMS
    kids = [key["kid"] for key in under.signing.jwks()["keys"]]
    assert kids == [parts(after)[0]["kid"], parts(before)[0]["kid"]]


@pytest.mark.parametrize("issuer", ["https://onbe.example.com/", "https://onbe.example.com.evil", "https://o", None])
def test_a_token_of_another_issuer_is_not_ours_whoever_signed_it(under: Under, issuer: str | None) -> None:
    assert under.signing.claims(under.signing.sign({**CLAIMS, "iss": issuer})) is None


@pytest.mark.parametrize("typ", ["JWT", "AT+JWT", "application/at+jwt", "", None])
def test_a_token_of_another_type_is_not_ours(typ: str | None) -> None:
    signing = FakeSigning(ISSUER)
    kid = signing.jwks()["keys"][0]["kid"]
    header = {"alg": "ES256", "kid": kid, **({"typ": typ} if typ is not None else {})}
    signed = ".".join(jose.encode(json.dumps(part).encode()) for part in (header, CLAIMS))
    key: SigningKey = signing._ring.active
    token = f"{signed}.{jose.encode(JWSRegistry.algorithms['ES256'].sign(signed.encode(), key.key))}"
    assert isinstance(jose.verified(token, signing.jwks()["keys"]), jose.Jwt)
    assert signing.claims(token) is None


def test_a_token_of_keys_that_are_not_ours_is_not_ours(under: Under) -> None:
    assert under.signing.claims(FakeSigning(ISSUER, "another").sign(CLAIMS)) is None


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "ö", "\ud800", "{}", "x" * 20_000])
def test_what_is_no_token_is_not_ours(under: Under, token: str) -> None:
    assert under.signing.claims(token) is None


def test_a_claim_that_is_no_number_is_never_signed(under: Under) -> None:
    with pytest.raises(ValueError):
        under.signing.sign({**CLAIMS, "exp": float("nan")})


def test_no_private_part_shows_in_any_repr(under: Under) -> None:
    fake = FakeSigning(ISSUER)
    key = fake._ring.active
    private = key.key.as_dict(private=True)["d"]
    assert str(private) not in f"{key!r} {key} {vars(fake)!r}"


def test_a_development_start_makes_a_key_once_and_says_so(tmp_path: Path) -> None:
    settings = OnbeSettings(development=DevelopmentSettings(enabled=True))
    first = LocalSigning(settings, tmp_path, FakeClock())
    again = LocalSigning(settings, tmp_path, FakeClock())
    assert first.made == first.active == again.active
    assert again.made is None
