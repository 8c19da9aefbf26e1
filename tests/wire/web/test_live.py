"""The page Boxes while it is looked at, over a real server: what changes shows, and it ends when it must."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx2
import psycopg
import pytest
from starlette.applications import Starlette
from tests.unit.people.house import act, caller, outcomes
from tests.wire.web.browsing import Browser
from tests.wire.web.test_boxes_page import opened

from keel.db import Busy
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from keel.web.serving import server
from rift.deps import Deps
from rift.tasks import actions as tasks
from rift.wire.web import live
from rift.wire.web.site import web_routes

WITHIN = 10.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(live, "REST_SECONDS", 0.01)


@dataclass
class Event:
    name: str
    id: str
    data: str


class Stream:
    """The events of one page, as a browser reads them."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Event | None:
        """The next event; None when there are no more."""
        event = Event("", "", "")
        async with asyncio.timeout(WITHIN):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if name == "event":
                    event.name = value
                elif name == "id":
                    event.id = value
                elif name == "data":
                    event.data += value + "\n"
                elif not line and event.name:
                    return event
        return None

    async def until(self, text: str) -> Event:
        """The first event that has this text."""
        while event := await self.next():
            if text in event.data:
                return event
        raise AssertionError(f"the events ended before {text}")


@dataclass
class Served:
    """A server of the pages, and who is signed in to it."""

    url: str
    cookies: httpx2.Cookies

    @asynccontextmanager
    async def watch(self, had: str = "") -> AsyncIterator[Stream]:
        headers = {"last-event-id": had} if had else {}
        async with (
            httpx2.AsyncClient(base_url=self.url, cookies=self.cookies, timeout=WITHIN) as client,
            client.stream("GET", "/app/boxes/live", headers=headers) as response,
        ):
            yield Stream(response)


@asynccontextmanager
async def serving(browser: Browser) -> AsyncIterator[Served]:
    """The pages on a port, for as long as the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        running = server(Starlette(routes=web_routes(browser.deps, url)), 64)
        task = asyncio.create_task(running.serve(sockets=[listening]))
        try:
            await running.up.wait()
            cookies = httpx2.Cookies({cookie.name: cookie.value or "" for cookie in browser.client.cookies.jar})
            yield Served(url, cookies)
        finally:
            browser.deps.signals.close()
            running.should_exit = True
            async with asyncio.timeout(WITHIN):
                await task


async def test_what_an_agent_does_shows_at_once(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    async with serving(browser) as site, site.watch() as stream:
        assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.response.headers["cache-control"] == "no-store"
        first = await stream.next()
        assert first is not None
        assert "No open task" in first.data
        lease = await opened(browser.deps, "ada@example.com", "fix the parser")
        shown = await stream.until("fix the parser")
        assert shown.id != first.id
        await tasks.release(browser.deps, act(await caller(browser.deps, "ada@example.com")), lease.handle)
        assert (await stream.until(">free</span>")).name == "shown"


async def test_a_page_that_has_the_newest_is_told_nothing_until_it_changes(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    async with serving(browser) as site:
        async with site.watch() as stream:
            first = await stream.next()
        assert first is not None
        async with site.watch(had=first.id) as stream:
            await opened(browser.deps, "ada@example.com", "a change")
            event = await stream.next()
            assert event is not None
            assert "a change" in event.data


async def test_signing_out_ends_it_in_every_window(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    async with serving(browser) as site, site.watch() as one, site.watch() as other:
        await one.next()
        await other.next()
        assert (await browser.submit("/app/boxes", "/sign-out")).status_code == 303
        for stream in (one, other):
            over = await stream.next()
            assert over is not None
            assert over.name == "over"
            assert await stream.next() is None


async def test_who_is_put_out_or_whose_session_expires_sees_nothing_more(
    browser: Browser, database: FreshDatabase, clock: FakeClock
) -> None:
    await browser.sign_in("ada@example.com")
    async with serving(browser) as site:
        async with site.watch() as stream:
            await stream.next()
            with psycopg.connect(database.owner) as connection:
                connection.execute("UPDATE users SET disabled_at = now()")
            over = await stream.next()
            assert over is not None
            assert (over.name, over.data.strip()) == ("over", "")
        with psycopg.connect(database.owner) as connection:
            connection.execute("UPDATE users SET disabled_at = NULL")
        async with site.watch() as stream:
            await stream.next()
            clock.advance(browser.deps.settings.sign_in.session_for.total_seconds())
            over = await stream.next()
            assert over is not None
            assert over.name == "over"


async def test_looking_on_does_not_keep_a_session_alive(browser: Browser, clock: FakeClock) -> None:
    await browser.sign_in("ada@example.com")
    async with serving(browser) as site, site.watch() as stream:
        await stream.next()
        quiet = browser.deps.settings.sign_in.session_quiet.total_seconds()
        clock.advance(quiet / 2)
        await opened(browser.deps, "ada@example.com", "meanwhile")
        await stream.until("meanwhile")
        clock.advance(quiet / 2 + 1)
        over = await stream.next()
        assert over is not None
        assert over.name in ("over", "shown")  # the ages in what is shown may come first
        if over.name == "shown":
            over = await stream.next()
            assert over is not None
            assert over.name == "over"


async def test_a_server_that_stops_ends_it_and_the_next_one_goes_on(browser: Browser, deps: Deps) -> None:
    await browser.sign_in("ada@example.com")
    async with serving(browser) as site, site.watch() as stream:
        first = await stream.next()
        assert first is not None
        deps.signals.close()
        assert await stream.next() is None  # an end, and no word that the session is over


async def test_a_person_has_so_many_live_pages_and_no_more(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    async with serving(browser) as site:
        async with AsyncExitStack() as held:
            streams = [await held.enter_async_context(site.watch()) for _ in range(live.MOST)]
            for stream in streams:
                await stream.next()
            async with site.watch() as extra:
                assert extra.response.status_code == 429
                assert extra.response.headers["retry-after"] == "30"
        async with asyncio.timeout(WITHIN):  # places of who went away come back
            while True:
                async with site.watch() as again:
                    if again.response.status_code == 200:
                        break


async def test_it_is_for_who_is_signed_in_alone(browser: Browser) -> None:
    answer = await browser.get("/app/boxes/live")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fapp%2Fboxes%2Flive")


async def test_a_database_that_goes_away_ends_it_without_a_fault(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.sign_in("ada@example.com")
    async with serving(browser) as site, site.watch() as stream:
        await stream.next()

        async def busy(*_: object) -> bool:
            raise Busy("no connection became free")

        monkeypatch.setattr("rift.wire.web.pages.boxes.sessions.goes_on", busy)
        assert await stream.next() is None


async def test_looking_on_writes_no_record(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    before = await outcomes(browser.deps)
    async with serving(browser) as site, site.watch() as stream:
        await stream.next()
    assert await outcomes(browser.deps) == before


def test_an_event_cannot_be_ended_by_what_it_tells() -> None:
    event = live._event("shown", "a\r\n\r\nevent: over\rdata: x\n\nb", "1")
    assert event.count("\n\n") == 1
    assert all(line.startswith(("event: shown", "id: 1", "data: ")) or not line for line in event.split("\n"))
