"""A live Onbe in this process: its HTTP surface over a real Postgres, with an identity provider that the test is.

    async with world_of(onbe_database, clock) as world:
        await world.register("scribe", allowed_scopes=["docs:read"])
        given = await world.begin("scribe", "ada")             # an exchange that must succeed
        again = await world.refresh("scribe", given["refresh_token"])
        assert again.status_code == 200

Every claim of an assertion or subject token can be replaced (`iss="…"`) or left out (`exp=None`), for attacks.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import httpx2
from joserfc import jws
from joserfc.jwk import ECKey, KeyParameters, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from keel.db import Database, Json
from keel.ids import SystemIds
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe import names
from onbe.deps import Deps
from onbe.drivers.keys.protocol import KeysUnavailable
from onbe.drivers.signing.fake import FakeSigning
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.serving import web
from onbe.settings import OnbeSettings, ServerSettings, SubjectSettings

ISSUER = "https://onbe.example"
PROVIDER = "https://id.example/realms/main"
TOOL, OTHER_TOOL = "https://tool.example", "https://other.example"
ADMIN_KEY = "admin-key-of-the-tests-0123456789abcdef"

Key = ECKey | RSAKey | OKPKey


def make_key(alg: str = "ES256", kid: str = "k1") -> Key:
    """A private key of our own choice, with its algorithm and id in it."""
    options: KeyParameters = {"kid": kid, "alg": alg, "use": "sig"}
    if alg == "ES256":
        return ECKey.generate_key("P-256", options)
    if alg == "EdDSA":
        return OKPKey.generate_key("Ed25519", options)
    return RSAKey.generate_key(2048, options)


def sign(claims: Mapping[str, Any], key: Key, **header: Any) -> str:
    """A compact JWT; members of the header can be replaced, or left out with None."""
    made = {"alg": key.get("alg"), "kid": key.get("kid"), "typ": "JWT", **header}
    kept = {name: value for name, value in made.items() if value is not None}
    registry = JWSRegistry(algorithms=["ES256", "PS256", "RS256", "EdDSA", "Ed25519"], strict_check_header=False)
    payload = json.dumps({name: value for name, value in claims.items() if value is not None})
    return jws.serialize_compact(kept, payload, key, registry=registry)


class PublishedInMemory:
    """A `PublishedKeys` of sets that a test puts there; what it does not know cannot be had."""

    def __init__(self) -> None:
        self.sets: dict[str, list[Mapping[str, Any]]] = {}
        self.asked: list[tuple[str, str | None]] = []

    async def at(self, uri: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        self.asked.append((uri, kid))
        if uri not in self.sets:
            raise KeysUnavailable(f"nothing is at {uri}")
        return [key for key in self.sets[uri] if kid is None or key.get("kid") == kid]

    async def of_issuer(self, issuer: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        return await self.at(issuer, kid)


@dataclass
class World:
    """One Onbe, and everything around it that a test moves."""

    deps: Deps
    http: httpx2.AsyncClient
    clock: FakeClock
    sponsors: FakeSponsors
    keys: PublishedInMemory
    provider: Key = field(default_factory=lambda: make_key(kid="provider"))
    agents: dict[str, Key] = field(default_factory=dict)

    # Who is there

    async def register(self, agent: str, **columns: Any) -> Key:
        """Register an agent with a key of its own; any column can be replaced. Its private key."""
        key = self.agents[agent] = columns.pop("key", None) or make_key(kid=f"{agent}-1")
        now = self.clock.now()
        row: dict[str, Any] = {
            "agent_id": agent,
            "display_name": agent,
            "allowed_scopes": ["docs:read", "docs:write"],
            "allowed_audiences": [TOOL],
            "max_task_ttl": None,
            "max_token_ttl": None,
            "max_delegation_depth": 1,
            "high_risk_audiences": [],
            "jwks_uri": None,
            "jwks": {"keys": [key.as_dict(private=False)]},
            "enabled": True,
            "created_at": now,
            "updated_at": now,
            "tasks_ended_at": None,
        } | columns
        if row["jwks"] is not None:
            row["jwks"] = Json(row["jwks"])
        await self.sql(
            """
            INSERT INTO agents (agent_id, display_name, allowed_scopes, allowed_audiences, max_task_ttl, max_token_ttl,
                                max_delegation_depth, high_risk_audiences, jwks_uri, jwks, enabled, created_at,
                                updated_at, tasks_ended_at)
            VALUES (%(agent_id)s, %(display_name)s, %(allowed_scopes)s, %(allowed_audiences)s, %(max_task_ttl)s,
                    %(max_token_ttl)s, %(max_delegation_depth)s, %(high_risk_audiences)s, %(jwks_uri)s, %(jwks)s,
                    %(enabled)s, %(created_at)s, %(updated_at)s, %(tasks_ended_at)s)
            """,
            **row,
        )
        return key

    def person(self, name: str, state: Any = "active") -> None:
        """Have the directory of people say this of somebody."""
        self.sponsors.states[name] = state

    # What they send

    def assertion(
        self, agent: str, *, key: Key | None = None, header: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """An agent's JWT about itself, good for one request."""
        now = int(self.clock.now().timestamp())
        made = {
            "iss": agent,
            "sub": agent,
            "aud": ISSUER,
            "iat": now,
            "exp": now + 120,
            "jti": f"a-{self.deps.ids.hex(12)}",
        }
        return sign({**made, **claims}, key or self.agents[agent], **(header or {}))

    def subject(
        self, person: str, *, key: Key | None = None, header: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """A person's token from the identity provider."""
        now = int(self.clock.now().timestamp())
        made = {"iss": PROVIDER, "sub": person, "aud": "onbe", "iat": now, "exp": now + 300}
        made |= {"scope": "docs:read docs:write mail:read"}
        return sign({**made, **claims}, key or self.provider, **(header or {}))

    # What they get

    async def exchange(self, agent: str, person: str = "ada", **form: Any) -> httpx2.Response:
        """POST an exchange. Every parameter can be replaced, or left out with None."""
        made = {
            "grant_type": names.EXCHANGE,
            "subject_token_type": names.SUBJECT_TYPES[0],
            "actor_token_type": names.ACTOR_TYPES[0],
            "resource": TOOL,
        }
        if "subject_token" not in form:
            made["subject_token"] = self.subject(person)
        if "actor_token" not in form:
            made["actor_token"] = self.assertion(agent)
        return await self.post({**made, **form})

    async def refresh(self, agent: str, grant: str, **form: Any) -> httpx2.Response:
        """POST a refresh."""
        made = {
            "grant_type": names.REFRESH,
            "refresh_token": grant,
            "client_assertion_type": names.ASSERTION_TYPE,
        }
        if "client_assertion" not in form:
            made["client_assertion"] = self.assertion(agent)
        return await self.post({**made, **form})

    async def delegate(self, agent: str, token: str, **form: Any) -> httpx2.Response:
        """POST an exchange of a task token by another agent."""
        return await self.exchange(agent, subject_token=token, **form)

    async def post(self, form: Mapping[str, Any], path: str = names.ENDPOINT) -> httpx2.Response:
        """POST a form."""
        return await self.http.post(path, data={name: value for name, value in form.items() if value is not None})

    async def begin(self, agent: str, person: str = "ada", **form: Any) -> dict[str, Any]:
        """An exchange that succeeds; its answer."""
        answer = await self.exchange(agent, person, **form)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def claims(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The claims of the access token of an answer."""
        claims = self.deps.signing.claims(given["access_token"])
        assert claims is not None
        return claims

    # What is stored

    async def sql(self, statement: LiteralString, **values: object) -> int:
        """Change the database directly; how many rows that was."""
        async with self.deps.db.tx() as tx:
            return await tx.run(statement, values)

    async def rows(self, statement: LiteralString, **values: object) -> list[dict[str, Any]]:
        """What a query gives."""
        async with self.deps.db.look() as tx:
            return await tx.rows(statement, values)

    async def ledger(self, *actions: str) -> list[dict[str, Any]]:
        """The records, those of some actions where any are named, in their order."""
        found = await self.rows("SELECT * FROM ledger ORDER BY seq")
        return [row for row in found if not actions or row["action"] in actions]

    async def outcomes(self) -> list[tuple[str, str]]:
        """Action and outcome of every record."""
        return [(row["action"], row["outcome"]) for row in await self.ledger()]

    def later(self, by: float | timedelta) -> datetime:
        """Move the clocks on."""
        return self.clock.advance(by)


def settings_of_tests() -> OnbeSettings:
    """An Onbe at `ISSUER` that believes `PROVIDER`."""
    return OnbeSettings(
        server=ServerSettings(public_url=ISSUER),
        subjects=SubjectSettings(issuer=PROVIDER, audiences=("onbe",)),
    )


@asynccontextmanager
async def world_of(
    database: FreshDatabase, clock: FakeClock, settings: OnbeSettings | None = None, *, connections: int = 12,
    **drivers: Any,
) -> AsyncIterator[World]:  # fmt: skip
    """A world on a database. `drivers` replace what `Deps` would hold (`signing`, `keys`, `sponsors`, …)."""
    sponsors, keys = FakeSponsors(clock, {"ada": "active", "bob": "active"}), PublishedInMemory()
    async with Database(database.runtime, size=connections) as db:
        made: dict[str, Any] = {
            "clock": clock,
            "ids": SystemIds(),
            "db": db,
            "signing": FakeSigning(ISSUER),
            "keys": keys,
            "sponsors": sponsors,
            "settings": settings or settings_of_tests(),
            "data": Path("/nowhere"),
        }
        deps = Deps(**{**made, **drivers})
        transport = httpx2.ASGITransport(web(deps), raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=ISSUER) as http:
            world = World(deps, http, clock, sponsors, keys)
            keys.sets[PROVIDER] = [world.provider.as_dict(private=False)]
            yield world
