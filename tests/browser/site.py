"""Rift's pages served for real on a port of this machine, over a database of the test's, in a thread of their own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.browser.world import ADA, make_world
from tests.unit.people.house import nobody

from keel.clock import SystemClock
from keel.refusal import Refusal
from keel.testing.plugin import FreshDatabase
from keel.web.serving import server
from rift import app, serving
from rift.deps import Deps
from rift.drivers.boxes.fake import FakeBoxes
from rift.drivers.forge.fake import FakeForge
from rift.drivers.github.fake import FakeGitHub
from rift.drivers.nix.fake import FakeBuilder
from rift.mail import actions as mail
from rift.settings import RiftSettings, ServerSettings

Result = TypeVar("Result")
WITHIN = 60.0


class Site:
    """A Rift that serves. `do` runs an action in it; `link` is a sign-in link for somebody."""

    def __init__(self, database: FreshDatabase, data: Path) -> None:
        self._database, self._data = database, data
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._up = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://localhost:{self._listening.getsockname()[1]}"
        self.deps: Deps | None = None
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="site", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(WITHIN), "the pages are not served"
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(WITHIN)
        self._listening.close()

    def do(self, act: Callable[[Deps], Awaitable[Result]]) -> Result:
        """Run an action in the server's own loop."""

        async def run() -> Result:
            assert self.deps is not None
            return await act(self.deps)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(WITHIN)

    def link(self, email: str = ADA) -> str:
        """The address that signs somebody in, once."""
        secret = self.do(lambda deps: mail.link_for(deps, email))
        assert not isinstance(secret, Refusal), secret
        return f"{self.url}/sign-in/link/{secret}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # told to the test, in its own thread
            self._failed = error
        finally:
            self._up.set()

    async def _serve(self) -> None:
        settings = RiftSettings(server=ServerSettings(public_url=self.url))
        async with app.connect(
            settings,
            self._data,
            self._database.runtime,
            boxes=FakeBoxes(nobody),
            forge=FakeForge(),
            builder=FakeBuilder(),
            github=FakeGitHub(SystemClock()),
        ) as deps:
            self.deps = deps
            await app.months(deps)
            await make_world(deps)
            serves = server(serving.web(deps), 256)
            answering = asyncio.create_task(serves.serve(sockets=[self._listening]))
            await serves.up.wait()
            self._up.set()
            await self._ending.wait()
            deps.signals.close()
            serves.should_exit = True
            await answering


@contextmanager
def served(database: FreshDatabase, data: Path) -> Iterator[Site]:
    """A Rift that serves, for the length of the block."""
    site = Site(database, data)
    site.start()
    try:
        yield site
    finally:
        site.stop()
