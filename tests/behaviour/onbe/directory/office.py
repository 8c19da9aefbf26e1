"""The admin API in this process, as an administrator meets it, and the rows that stand behind it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import httpx2
from cryptography.hazmat.primitives.asymmetric import ec

from keel.db import Database
from keel.testing.fakes import FakeClock, FakeIds
from keel.testing.plugin import FreshDatabase
from onbe.deps import Deps
from onbe.drivers.keys.fake import FakeKeys
from onbe.drivers.signing.fake import FakeSigning
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.serving import web
from onbe.settings import AdminSettings, OnbeSettings

KEY = "an-admin-key-of-tests-" + "k" * 20
KEYS = AdminSettings(keys=(KEY,))


def key(kid: str | None = None, **more: Any) -> dict[str, Any]:
    """A fresh public P-256 key as a JWK."""
    numbers = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    x, y = (base64.urlsafe_b64encode(part.to_bytes(32)).rstrip(b"=").decode() for part in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": "P-256", "x": x, "y": y, **({"kid": kid} if kid else {}), **more}


KEY_OF_AGENTS = key()


def registration(agent_id: str = "mailer", **more: Any) -> dict[str, Any]:
    """A registration that is taken; None among `more` leaves a member out."""
    members = {
        "agent_id": agent_id,
        "display_name": "The mailer",
        "allowed_scopes": ["mail.read", "mail.send"],
        "allowed_audiences": ["https://mail.example.com/", "https://files.example.com/"],
        "jwks": {"keys": [KEY_OF_AGENTS]},
        **more,
    }
    return {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True)
class Office:
    """An administrator's client, and what stands behind the server that it speaks to."""

    deps: Deps
    http: httpx2.AsyncClient

    async def register(self, agent_id: str = "mailer", **more: Any) -> httpx2.Response:
        """Register an agent that is taken, unless `more` says otherwise."""
        return await self.http.post("/agents", json=registration(agent_id, **more))

    async def rows(self, sql: LiteralString) -> list[dict[str, Any]]:
        """What a query finds."""
        async with self.deps.db.look() as tx:
            return await tx.rows(sql)

    async def records(self) -> list[dict[str, Any]]:
        """The ledger, from its beginning."""
        return await self.rows("SELECT actor, via, action, outcome, arguments FROM ledger ORDER BY seq")

    def stranger(self, authorization: str | None = None) -> httpx2.AsyncClient:
        """A client that shows something else, or nothing."""
        headers = {} if authorization is None else {"Authorization": authorization}
        return httpx2.AsyncClient(transport=transport(self.deps), base_url=BASE, headers=headers)


BASE = "http://127.0.0.1:7434/admin"


def transport(deps: Deps) -> httpx2.ASGITransport:
    return httpx2.ASGITransport(web(deps))


@asynccontextmanager
async def office(
    database: FreshDatabase,
    data: Path,
    settings: OnbeSettings | None = None,
    clock: FakeClock | None = None,
) -> AsyncIterator[Office]:
    """A server of these settings, and its administrator."""
    clock, settings = clock or FakeClock(), settings or OnbeSettings(admin=KEYS)
    async with Database(database.runtime) as db:
        deps = Deps(
            clock=clock,
            ids=FakeIds(),
            db=db,
            signing=FakeSigning(settings.issuer),
            keys=FakeKeys(),
            sponsors=FakeSponsors(clock),
            settings=settings,
            data=data,
        )
        headers = {"Authorization": f"Bearer {KEY}"}
        async with httpx2.AsyncClient(transport=transport(deps), base_url=BASE, headers=headers) as http:
            yield Office(deps, http)
