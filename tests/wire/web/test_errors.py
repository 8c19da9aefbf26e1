"""What a browser is shown where something is wrong, and that programs are answered as programs are."""

from __future__ import annotations

import asyncio
import socket

import httpx2
import psycopg
import pytest
from starlette.applications import Starlette
from tests.wire.web.browsing import PUBLIC, Browser

from keel.db import Busy, OperationalError
from keel.refusal import Ask, Call, Kind, Refusal, Retry
from keel.testing import FakeIds
from keel.testing.plugin import FreshDatabase
from keel.web.connections import busy
from keel.web.serving import server
from rift import serving
from rift.audit import NotBegun
from rift.wire.mcp import guard
from rift.wire.oauth import endpoints
from rift.wire.observed import observed
from rift.wire.web import site
from rift.wire.web.errors import Errors
from rift.wire.web.site import Door, web_site
from rift.wire.web.visit import Page, Visit

AS_BROWSER = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
SECRET = "rift_" + "A" * 43


def failing(browser: Browser, error: Exception) -> httpx2.AsyncClient:
    """A client of pages with one that fails so."""

    async def page(visit: Visit) -> Refusal:
        raise error

    site = web_site(browser.deps, PUBLIC)
    inside = Starlette(
        routes=[Door(site).route(Page("/app/fails", page, open=True))], exception_handlers=Errors(site).handlers
    )
    app = observed(inside, browser.deps.clock, FakeIds("faults"))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=PUBLIC)


@pytest.mark.parametrize("path", ["/nothing", "/app/nothing", "/static/nothing.css", "/app/boxes/", "/%F0%9F%A6%80"])
async def test_where_no_page_is_a_browser_gets_one_that_leads_on(browser: Browser, path: str) -> None:
    answer = await browser.get(path, accept=AS_BROWSER)
    if answer.status_code == 307:  # a slash too many is taken off
        answer = await browser.get("/app/nothing/at/all", accept=AS_BROWSER)
    assert answer.status_code == 404
    assert "<h1>Not here</h1>" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    await browser.sign_in("ada@example.com")
    assert "ada@example.com" in (await browser.get("/app/nothing", accept=AS_BROWSER)).text


async def test_where_no_page_is_a_program_gets_no_page(browser: Browser) -> None:
    answer = await browser.get("/nothing", accept="application/json")
    assert (answer.status_code, answer.text) == (404, "Not Found")


async def test_a_page_that_only_takes_forms_says_which_method_it_takes(browser: Browser) -> None:
    answer = await browser.get("/sign-out", accept=AS_BROWSER)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert "<h1>" in answer.text


async def test_a_wrong_host_learns_nothing_from_a_page_that_is_not_there(browser: Browser) -> None:
    assert (await browser.get("/nothing", accept=AS_BROWSER, host="evil.example")).status_code == 421


@pytest.mark.parametrize(
    ("error", "status", "heading"),
    [
        (RuntimeError(f"a fault with {SECRET}"), 500, "Rift failed"),
        (OperationalError(f"no server at {SECRET}"), 503, "Not at this moment"),
        (Busy("no connection"), 503, "Not at this moment"),
        (NotBegun(), 503, "Not at this moment"),
    ],
)
async def test_a_fault_is_a_page_with_its_number_and_nothing_of_itself(
    browser: Browser, error: Exception, status: int, heading: str
) -> None:
    async with failing(browser, error) as client:
        answer = await client.get("/app/fails", headers={"accept": AS_BROWSER})
        assert answer.status_code == status
        assert f"<h1>{heading}</h1>" in answer.text
        assert answer.headers["x-request-id"] in answer.text
        assert SECRET not in answer.text
        assert answer.headers.get("retry-after") == ("5" if status == 503 else None)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        told = await client.get("/app/fails", headers={"accept": "*/*"})
        assert (told.status_code, told.json()["error"]) == (500, "Rift failed at this request")


async def test_a_database_that_does_not_answer_keeps_nobody_waiting_for_ever(
    browser: Browser, database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.sign_in("ada@example.com")
    page = (await browser.get("/app/organizations")).text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    monkeypatch.setattr(site, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(endpoints, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(guard, "TOKEN_SECONDS", 0.5)
    told = {"accept": AS_BROWSER, "origin": PUBLIC}
    transport = httpx2.ASGITransport(app=serving.web(browser.deps))
    async with httpx2.AsyncClient(transport=transport, base_url=PUBLIC, cookies=browser.client.cookies) as client:
        with psycopg.connect(database.owner) as connection:
            connection.execute("LOCK TABLE users, links, tokens, clients, orgs IN ACCESS EXCLUSIVE MODE")
            answers = [
                await client.get("/app/boxes", headers=told),
                await client.get("/nothing", headers=told),
                await client.get("/sign-in/link/riftl_none", headers=told),
                await client.post("/app/organizations", data={"csrf": csrf, "name": "acme"}, headers=told),
                await client.post(
                    "/oauth2/token", data={"grant_type": "refresh_token", "client_id": "a", "refresh_token": "b"}
                ),
                await client.post("/mcp", json={}, headers={"authorization": f"Bearer {SECRET}"}),
            ]
        assert [answer.status_code for answer in answers] == [503] * 6
        assert all("retry-after" in answer.headers for answer in answers)
        assert (await client.get("/app/organizations", headers=told)).status_code == 200, "once it answers again"


async def test_a_refusal_as_a_page_tells_each_way_on_and_no_secret(browser: Browser) -> None:
    refused = Kind("page_of_a_test", "No: {what}.")(
        Call("rift_task_attach", {"task": "task_abc", "takeover": True}),
        Ask("yourself", "go back"),
        Ask("an admin of <b>acme</b>", "look"),
        Retry(1),
        what=f"<script>{SECRET}</script>",
    )
    door = Door(web_site(browser.deps, PUBLIC))

    async def page(visit: Visit) -> Refusal:
        return refused

    app = Starlette(routes=[door.route(Page("/app/refuses", page, open=True))])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=PUBLIC) as client:
        answer = await client.get("/app/refuses")
    html = answer.text.replace("&#34;", '"')
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "1")
    assert 'rift_task_attach {"task": "task_abc", "takeover": true}' in html
    assert "Go back." in html
    assert "Ask an admin of &lt;b&gt;acme&lt;/b&gt;: look." in html
    assert "in 1 second." in html
    assert SECRET not in html
    assert "<script>" not in html.replace('<script src="', "")


async def test_one_connection_too_many_is_a_page_for_a_browser_alone(browser: Browser) -> None:
    full = Errors(web_site(browser.deps, PUBLIC)).full(busy)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        running = server(Starlette(), 1, full)
        task = asyncio.create_task(running.serve(sockets=[listening]))
        await running.up.wait()
        _, first = await asyncio.open_connection(*address)
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{address[1]}") as client:
                page = await client.get("/", headers={"accept": AS_BROWSER})
                assert (page.status_code, page.headers["retry-after"]) == (503, "5")
                assert "<h1>Too many at once</h1>" in page.text
                told = await client.get("/", headers={"accept": "application/json"})
                assert told.status_code == 503
                assert "error" in told.json()
        finally:
            first.close()
            running.should_exit = True
            await task
