"""A whole Rift at a port of this machine, and its person with a browser that clients send places."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from html import unescape

import httpx2
from tests.unit.people.house import user
from tests.wire.serving import serving

from keel.clock import SystemClock
from keel.refusal import Refusal
from rift.deps import Deps
from rift.mail import actions as mail
from rift.serving import web


@dataclass(frozen=True)
class Standing:
    """A Rift that answers at `public`, in which `email` is signed in with the browser `http`."""

    deps: Deps
    public: str
    http: httpx2.AsyncClient
    email: str

    @property
    def mcp(self) -> str:
        """The address that a client is given, and nothing else."""
        return f"{self.public}/mcp"

    async def consent(self, url: str, word: str = "allow") -> str:
        """Open what a client wants opened and answer it: the address that the browser is sent on to."""
        page = await self.http.get(url)
        if page.status_code == 303 and not page.headers["location"].startswith("/sign-in"):
            return page.headers["location"]  # it asked wrongly, and hears of it
        assert page.status_code == 200, (page.status_code, page.text)
        csrf = re.search(r'name="csrf" value="([^"]*)"', page.text)
        assert csrf is not None
        told = {"origin": self.public, "sec-fetch-site": "same-origin"}
        sent = await self.http.post(url, data={"csrf": unescape(csrf[1]), "answer": word}, headers=told)
        assert sent.status_code == 303, sent.text
        return sent.headers["location"]

    async def go(self, url: str) -> None:
        """The same, and on to the client that waits there."""
        async with httpx2.AsyncClient(timeout=30) as other:
            answer = await other.get(await self.consent(url))
            assert answer.status_code < 400, answer.text

    async def driven(self, process: asyncio.subprocess.Process) -> str:
        """Read what a program prints, and open what it wants opened, until it ends: all that it printed."""
        assert process.stdout is not None
        said, opened = "", set[str]()
        async with asyncio.timeout(120):
            while line := (await process.stdout.readline()).decode(errors="replace"):
                said += line
                for url in re.findall(rf"{re.escape(self.public)}/oauth2/authorize\?\S+", line):
                    if url not in opened:
                        opened.add(url)
                        await self.go(url)
            await process.wait()
        return said


@asynccontextmanager
async def standing(deps: Deps, email: str = "ada@example.com") -> AsyncIterator[Standing]:
    """A whole Rift, for the length of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        public = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = deps.settings.server.model_copy(update={"public_url": public})
        settings = deps.settings.model_copy(update={"server": server})
        here = replace(deps, settings=settings, clock=SystemClock())
        async with serving(web(here), listening), httpx2.AsyncClient(base_url=public, timeout=30) as http:
            await user(here, email)
            secret = await mail.link_for(here, email)
            assert not isinstance(secret, Refusal)
            signed_in = await http.post(f"/sign-in/link/{secret}", data={"x": ""})
            assert signed_in.status_code == 303, signed_in.text
            yield Standing(here, public, http, email)
