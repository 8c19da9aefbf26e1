"""A browser of the test's over the real pages and a real database: it keeps cookies and fills in forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape

import httpx2
from starlette.applications import Starlette
from tests.unit.people.house import user

from keel.refusal import Refusal
from rift.deps import Deps
from rift.mail import actions as mail
from rift.people import actions as people
from rift.people.model import User
from rift.wire.web.errors import Errors
from rift.wire.web.site import web_routes, web_site

PUBLIC = "http://127.0.0.1:7433"


class Browser:
    """One browser. `get` and `post` follow no redirect; `submit` sends a page's form as the page has it."""

    def __init__(self, deps: Deps, public: str = PUBLIC) -> None:
        self.deps = deps
        self.public = public
        app = Starlette(routes=web_routes(deps, public), exception_handlers=Errors(web_site(deps, public)).handlers)
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=public)

    async def get(self, path: str, **more: str) -> httpx2.Response:
        return await self.client.get(path, headers=more)

    async def post(
        self, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """A form from a page of ours."""
        told = {"origin": self.public, "sec-fetch-site": "same-origin", **(headers or {})}
        return await self.client.post(path, data=dict(form), headers=told)

    async def submit(self, page: str, to: str | None = None, **fields: str) -> httpx2.Response:
        """Open a page and send its form that goes `to` (without one: to the page itself), with these fields."""
        html = (await self.get(page)).text
        csrf = re.search(r'name="csrf" value="([^"]*)"', html)
        return await self.post(to or page, {"csrf": unescape(csrf[1]) if csrf else "", **fields})

    async def sign_in(self, email: str) -> User:
        """As a person with an account, which is made if there is none."""
        async with self.deps.db.tx() as tx:
            known = await people.find(tx, email)
        person = known or await user(self.deps, email)
        secret = await mail.link_for(self.deps, email)
        assert not isinstance(secret, Refusal)
        assert (await self.submit(f"/sign-in/link/{secret}")).status_code == 303
        return person
