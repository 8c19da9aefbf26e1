"""What Onbe says of itself is what it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from keel import jose
from keel.clock import SystemClock
from keel.db import Database
from keel.ids import SystemIds
from keel.settings import SettingsError, load
from onbe.deps import Deps
from onbe.drivers.keys.fake import FakeKeys
from onbe.drivers.signing.fake import FakeSigning
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.settings import OnbeSettings, ServerSettings
from onbe.wire.oauth import discovery

ISSUER = "https://onbe.example.com"


def asked(path: str, signing: FakeSigning | None = None) -> Any:
    clock = SystemClock()
    deps = Deps(
        clock=clock, ids=SystemIds(), db=Database("postgresql://nowhere"), signing=signing or FakeSigning(ISSUER),
        keys=FakeKeys(), sponsors=FakeSponsors(clock), settings=OnbeSettings(server=ServerSettings(public_url=ISSUER)),
        data=Path("/nowhere"),
    )  # fmt: skip
    return TestClient(Starlette(routes=discovery.routes(deps))).get(path)


@pytest.mark.parametrize("path", discovery.WELL_KNOWN)
def test_the_documents_name_the_issuer_and_addresses_below_it(path: str) -> None:
    got = asked(path)
    assert got.status_code == 200
    assert got.headers["content-type"] == "application/json"
    document = got.json()
    assert document["issuer"] == ISSUER
    addresses = {name: value for name, value in document.items() if name.endswith(("_endpoint", "_uri"))}
    assert addresses == {
        "jwks_uri": f"{ISSUER}/.well-known/jwks.json",
        "token_endpoint": f"{ISSUER}/oauth2/token",
        "revocation_endpoint": f"{ISSUER}/oauth2/revoke",
        "introspection_endpoint": f"{ISSUER}/oauth2/introspect",
    }
    assert document["grant_types_supported"] == ["urn:ietf:params:oauth:grant-type:token-exchange", "refresh_token"]


def test_what_is_not_implemented_is_not_listed() -> None:
    document = asked(discovery.WELL_KNOWN[0]).json()
    assert not {name for name in document if any(word in name for word in ("authorization_e", "userinfo", "dpop"))}
    assert document["response_types_supported"] == []
    assert document["token_endpoint_auth_methods_supported"] == ["private_key_jwt"]


def test_the_keys_are_those_that_sign_and_those_of_before() -> None:
    signing = FakeSigning(ISSUER)
    old = signing.sign({"iss": ISSUER})
    signing.rotate()
    got = asked(discovery.JWKS, signing)
    assert got.headers["content-type"] == "application/jwk-set+json"
    for token in (old, signing.sign({"iss": ISSUER})):
        assert isinstance(jose.verified(token, got.json()["keys"]), jose.Jwt)
    assert all(jose.PRIVATE.isdisjoint(key) for key in got.json()["keys"])


@pytest.mark.parametrize("path", [*discovery.WELL_KNOWN, discovery.JWKS])
def test_what_is_published_may_be_kept_for_a_while_and_read_by_pages_of_others(path: str) -> None:
    headers = asked(path).headers
    assert headers["cache-control"] == "public, max-age=300"
    assert headers["access-control-allow-origin"] == "*"


def test_an_issuer_with_a_path_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="Onbe:Server:PublicUrl should have no path"):
        load(OnbeSettings, {"Onbe__Server__PublicUrl": "https://example.com/onbe"})
    load(OnbeSettings, {"Onbe__Server__PublicUrl": "https://example.com/"})


def test_the_first_verification_is_as_good_as_the_last_in_a_fresh_program() -> None:
    """The library's algorithms are there without anybody having asked for them before."""
    program = "from keel import jose; print(jose.verified('a.b.c', []), jose.JWSRegistry.algorithms['EdDSA'].name)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "malformed EdDSA\n"
