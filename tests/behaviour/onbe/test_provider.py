"""Onbe between a certified OpenID provider and a directory of people, each a server of its own, end to end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey
from starlette.responses import PlainTextResponse
from tests.behaviour.onbe.development.started import ADMIN_KEY, started
from tests.wire.people import CLIENT, REALM, SECRET, People, directory
from tests.wire.provider import provider, signed_in

from keel.testing import eventually
from keel.testing.plugin import FreshDatabase
from onbe.demo.client import Agent, Said, Server
from onbe_client import AgentKey

pytestmark = pytest.mark.needs("node", "npm")

TOOL = "https://tool.example"
ADA = "ada"
AUDIENCE = "urn:onbe:of-tests"
TOKEN_LIFE = timedelta(seconds=2)
"""So an answer about a person is used again for two seconds at most."""


@dataclass(frozen=True)
class Office:
    """Everybody who takes part."""

    provider: str
    people: People
    agent: Agent

    async def token(self, scope: str = "docs:read docs:write") -> str:
        """Ada's own token."""
        return (await signed_in(self.provider, ADA, scope))["access_token"]

    async def begun(self) -> Mapping[str, Any]:
        """A task for Ada."""
        return (await self.agent.exchange(await self.token(), TOOL, "docs:read")).good("the exchange is granted")

    async def refused(self, grant: str, status: int) -> Said:
        """The first answer to a refresh that is not granted: what was known about the person may serve until then."""

        async def answer() -> Said | None:
            said = await self.agent.refresh(grant)
            assert said.status in (200, status), said.text
            return said if said.status == status else None

        found = await eventually(answer, within=20, every=0.25)
        assert found is not None
        return found


@pytest.fixture(params=["keycloak", "scim"])
async def office(request: pytest.FixtureRequest, onbe_database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Office]:
    people = People({ADA: True})
    async with provider(AUDIENCE) as issuer, directory(people) as where:
        checks = {
            "keycloak": {"url": where, "realm": REALM, "client_id": CLIENT, "client_secret": SECRET},
            "scim": {"url": f"{where}/scim/v2", "token": "bearer-of-scim", "lookup": "userName"},
        }
        sections: dict[str, Any] = {
            "development": {"enabled": True},  # makes its own keys; the issuer is another
            "subjects": {"issuer": issuer, "audiences": (AUDIENCE,), "types": ("at+jwt",)},
            "sponsor_check": {"provider": request.param, **checks[request.param]},
            "agents": {"min_token_ttl": TOKEN_LIFE},
        }
        async with started(onbe_database, tmp_path, **sections) as deps, httpx2.AsyncClient(trust_env=False) as http:
            server = Server(deps.settings.issuer, ADMIN_KEY, http)
            agent = Agent(server, "scribe", AgentKey(ECKey.generate_key("P-256").as_dict(private=True)))
            members = {
                "agent_id": agent.name,
                "display_name": "Scribe",
                "allowed_scopes": ["docs:read"],
                "allowed_audiences": [TOOL],
                "max_token_ttl": "PT2S",
                "jwks": {"keys": [agent.key.public_jwk]},
            }
            (await server.admin("POST", "/admin/agents", json=members)).good("the agent is registered")
            yield Office(issuer, people, agent)


async def test_a_person_of_a_real_provider_is_acted_for_until_they_are_disabled(office: Office) -> None:
    begun = await office.begun()
    assert begun["scope"] == "docs:read", "the person's scope and the agent's, and no more"
    grant = str(begun["refresh_token"])
    (await office.agent.refresh(grant)).good("the refresh is granted")
    office.people.states[ADA] = False
    (await office.refused(grant, 400)).denied("access_denied", "sponsor_disabled")
    fresh = await office.agent.exchange(await office.token(), TOOL, "docs:read")
    fresh.denied("access_denied", "sponsor_disabled")
    del office.people.states[ADA]
    (await office.agent.exchange(await office.token(), TOOL, "docs:read")).denied("access_denied", "sponsor_not_found")
    office.people.states[ADA] = True
    await office.begun()


async def test_a_directory_that_is_down_is_no_yes_and_works_again_when_it_is_back(office: Office) -> None:
    grant = str((await office.begun())["refresh_token"])
    office.people.instead = PlainTextResponse("out of order", 502)
    said = await office.refused(grant, 503)
    assert said.body["error"] == "temporarily_unavailable"
    assert "reason" not in said.body
    office.people.instead = None

    async def again() -> bool:
        return (await office.agent.refresh(grant)).status == 200

    await eventually(again, within=20, every=0.25)


async def test_a_token_of_the_provider_for_somebody_else_is_none(office: Office) -> None:
    told = await signed_in(office.provider, ADA, "docs:read")
    said = await office.agent.exchange(told["id_token"], TOOL, "docs:read")
    assert said.body["error"] == "invalid_request", "an ID token is for the client that asked"
    tampered = told["access_token"][:-8] + "AAAAAAAA"
    said = await office.agent.exchange(tampered, TOOL, "docs:read")
    assert said.body["error"] == "invalid_request"
