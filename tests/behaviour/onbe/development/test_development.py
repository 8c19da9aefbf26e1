"""The development issuer: one person, for this machine alone, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet
from tests.behaviour.onbe.development.started import started

from keel.settings import SettingsError, load
from keel.testing import FakeClock, FakeIds
from keel.testing.plugin import FreshDatabase
from onbe import app
from onbe.deps import Deps
from onbe.settings import OnbeSettings

PATHS = (
    ("GET", "/development/.well-known/openid-configuration"),
    ("GET", "/development/jwks.json"),
    ("POST", "/development/token"),
    ("GET", "/development/person"),
    ("POST", "/development/person"),
)
REAL: dict[str, Any] = {
    "subjects": {"issuer": "https://id.example.com", "audiences": ("onbe",)},
    "sponsor_check": {"provider": "scim", "url": "https://id.example.com/scim/v2", "token": "a-token"},
}


@pytest.fixture
async def deps(onbe_database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Deps]:
    async with started(onbe_database, tmp_path, development={"enabled": True}) as made:
        yield made


@pytest.fixture
async def http(deps: Deps) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=deps.settings.issuer) as client:
        yield client


async def test_it_describes_itself_and_its_token_is_signed_by_its_own_key(deps: Deps, http: httpx2.AsyncClient) -> None:
    described = (await http.get("/development/.well-known/openid-configuration")).json()
    assert described["issuer"] == deps.settings.subject_issuer == f"{deps.settings.issuer}/development"
    keys = (await http.get(described["jwks_uri"])).json()
    assert all("d" not in key for key in keys["keys"])
    said = await http.post(described["token_endpoint"], data={"scope": "a b"})
    token = jwt.decode(said.json()["access_token"], KeySet.import_key_set(keys), algorithms=["ES256"])
    assert token.claims["iss"] == described["issuer"]
    assert token.claims["aud"] == deps.settings.issuer
    assert token.claims["sub"] == "ada@example.test"
    assert token.claims["scope"] == "a b" == said.json()["scope"]
    assert token.claims["exp"] - token.claims["iat"] == said.json()["expires_in"] == 3600
    ours = {key["kid"] for key in deps.signing.jwks()["keys"]}
    assert not ours & {key["kid"] for key in keys["keys"]}, "and never by a key that signs task tokens"
    assert deps.signing.claims(said.json()["access_token"]) is None


async def test_its_person_can_be_disabled_and_then_gets_no_token(deps: Deps, http: httpx2.AsyncClient) -> None:
    for enabled, state, status in ((False, "disabled", 400), (True, "active", 200)):
        said = await http.post("/development/person", json={"enabled": enabled})
        assert said.json() == {"id": "ada@example.test", "enabled": enabled}
        assert (await http.get("/development/person")).json()["enabled"] is enabled
        assert (await deps.sponsors.ask("ada@example.test", deps.clock.now())).state == state
        assert (await http.post("/development/token", data={})).status_code == status
    assert (await deps.sponsors.ask("eve@example.test", deps.clock.now())).state == "not_found"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Host": "127.0.0.1.attacker.example"},
        {"Host": "[::1].attacker.example"},
        {"Host": ""},
        {"Host": "["},
        {"X-Forwarded-For": "192.0.2.1"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=192.0.2.1"},
        {"X-Forwarded-Host": "localhost"},
        {"Via": "1.1 proxy"},
        {"X-Real-IP": "192.0.2.1"},
    ],
    ids=str,
)
async def test_a_stranger_who_finds_a_way_in_finds_nothing(http: httpx2.AsyncClient, headers: dict[str, str]) -> None:
    for method, path in PATHS:
        said = await http.request(method, path, headers=headers)
        assert said.status_code in (400, 404), (path, said.text)
        assert "enabled" not in said.text


async def test_no_page_of_a_stranger_can_disable_the_person(http: httpx2.AsyncClient) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", ""):
        said = await http.post("/development/person", content=b'{"enabled": false}', headers={"Content-Type": kind})
        assert said.status_code == 415
    assert (await http.get("/development/person")).json()["enabled"] is True


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"enabled": "false"}', b'{"enabled": 0}', b'{"enabled": false, "id": "eve"}',
             b"\xff", b"[" * 4000, b" " * 5000, b"{}"],
)  # fmt: skip
async def test_only_a_clear_word_changes_the_person(http: httpx2.AsyncClient, body: bytes) -> None:
    said = await http.post("/development/person", content=body, headers={"Content-Type": "application/json"})
    assert said.status_code in (400, 413)
    assert (await http.get("/development/person")).json()["enabled"] is True


@pytest.mark.parametrize("form", [{"scope": 'a"b'}, {"scope": "a\x7f"}, {"audience": "a b"}, {"scope": "x" * 5000}])
async def test_an_odd_form_gets_no_token(http: httpx2.AsyncClient, form: dict[str, str]) -> None:
    assert (await http.post("/development/token", data=form)).status_code in (400, 413)


@pytest.mark.parametrize("development", [False, True])
async def test_where_another_issuer_is_trusted_it_does_not_exist(
    onbe_database: FreshDatabase, tmp_path: Path, development: bool
) -> None:
    if not development:  # which needs a key of its own
        from onbe.drivers.signing.folder import new_key

        (tmp_path / "key.pem").write_bytes(new_key()[0])
        (tmp_path / "key.pem").chmod(0o600)
    keys = {} if development else {"keys": {"files": (str(tmp_path / "key.pem"),)}}
    sections = {**REAL, **keys, "development": {"enabled": development}}
    async with started(onbe_database, tmp_path, **sections) as deps:
        assert deps.development is None
        async with httpx2.AsyncClient(base_url=deps.settings.issuer) as client:
            for method, path in PATHS:
                assert (await client.request(method, path)).status_code == 404


@pytest.mark.parametrize(
    "environment",
    [
        {"Onbe__Server__Host": "0.0.0.0"},
        {"Onbe__Server__Host": "::"},
        {"Onbe__Server__Host": "192.0.2.1"},
        {"Onbe__Server__Host": "0.0.0.0", "Onbe__Server__PublicUrl": "http://127.0.0.1:7434"},
        {"Onbe__Server__PublicUrl": "https://onbe.example.com"},
        {"Onbe__Server__PublicUrl": "http://127.0.0.1.example.com"},
    ],
    ids=str,
)
def test_development_is_refused_where_others_could_come(environment: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="for this machine alone"):
        load(OnbeSettings, {"Onbe__Development__Enabled": "true", **environment})


def test_a_directory_of_people_is_configured_whole() -> None:
    for provider, needs in (("keycloak", ["Url", "Realm", "ClientId", "ClientSecret"]), ("scim", ["Url", "Token"])):
        with pytest.raises(SettingsError) as caught:
            load(OnbeSettings, {"Onbe__SponsorCheck__Provider": provider})
        assert [error.split()[0] for error in caught.value.errors] == [f"Onbe:SponsorCheck:{name}" for name in needs]


async def test_nothing_starts_that_could_not_ask_about_people(clock: FakeClock) -> None:
    for sections, said in (
        ({}, "Onbe:SponsorCheck:Provider"),
        ({"subjects": REAL["subjects"]}, "Onbe:SponsorCheck:Provider"),
        ({"subjects": REAL["subjects"], "development": {"enabled": True}}, "Onbe:SponsorCheck:Provider"),
        ({"sponsor_check": REAL["sponsor_check"]}, "Onbe:Subjects:Issuer"),
    ):
        settings = OnbeSettings.model_validate(sections)
        with pytest.raises(SettingsError, match=said):
            async with app.people(settings, clock, app.own_issuer(settings, clock, FakeIds())):
                raise AssertionError("it started")
