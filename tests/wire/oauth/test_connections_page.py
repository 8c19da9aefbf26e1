"""The Connections page: what acts for a person, making a token by hand, ending one."""

from __future__ import annotations

import re

import pytest
from tests.unit.people.house import caller, outcomes
from tests.wire.oauth.desk import MCP, Desk

from rift.people import actions as people

PAGE = "/app/connections"


async def test_every_token_of_the_person_is_shown_with_how_it_came_and_nobody_elses(desk: Desk) -> None:
    await desk.signed_in(client_name="By itself")
    await caller(desk.deps, "ada@example.com", "By hand")
    await desk.person().sign_in("grace@example.com")
    await caller(desk.deps, "grace@example.com", "Of Grace")
    html = (await desk.browser.get(PAGE)).text
    assert "By itself" in html
    assert "by registering" in html
    assert "By hand" in html
    assert "by a token made by hand" in html
    assert "Of Grace" not in html
    assert html.count("/revoke") == 2


async def test_a_person_without_a_client_is_told_how_to_connect_one(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    html = (await desk.browser.get(PAGE)).text
    assert "No client is connected" in html
    for client in ("Claude Code", "Cursor", "Codex", "VS Code", "MCP Inspector", "mcp-remote"):
        assert client in html
    assert html.count(MCP) >= 6


async def test_a_token_is_ended_once_it_is_confirmed_and_the_record_says_who_did(desk: Desk) -> None:
    _, given = await desk.signed_in()
    html = (await desk.browser.get(PAGE)).text
    (path,) = re.findall(r'href="(/app/connections/tok_\w+/revoke)"', html)
    assert "Disconnect Claude?" in (await desk.browser.get(path)).text
    assert await people.authenticate(desk.deps, given["access_token"])
    assert (await desk.browser.submit(path)).headers["location"] == PAGE
    assert await people.authenticate(desk.deps, given["access_token"]) is None
    html = (await desk.browser.get(PAGE)).text
    assert "Claude is disconnected" in html
    assert "No client is connected" in html
    assert (await desk.browser.get(path)).status_code == 404
    assert (await outcomes(desk.deps))[-1][1:] == ("web", "web revoke token", "ok")


async def test_a_token_of_somebody_else_is_not_there_and_is_not_ended(desk: Desk) -> None:
    _, given = await desk.signed_in()
    (path,) = re.findall(r'href="(/app/connections/tok_\w+/revoke)"', (await desk.browser.get(PAGE)).text)
    grace = desk.person()
    await grace.sign_in("grace@example.com")
    assert (await grace.get(path)).status_code == 404
    assert (await grace.submit(PAGE, path)).status_code == 404
    assert await people.authenticate(desk.deps, given["access_token"])


async def test_a_token_made_by_hand_is_shown_once(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    made = await desk.browser.submit(PAGE, client=" My\u200b script ")
    (secret,) = re.findall(r"rift_[\w-]{43}", made.text)
    found = await people.authenticate(desk.deps, secret)
    assert found is not None
    assert found.label == "mcp:My script"
    assert made.headers["cache-control"] == "no-store"
    assert secret not in (await desk.browser.get(PAGE)).text
    refused = await desk.browser.submit(PAGE, client="\u200b")
    assert refused.status_code == 422
    assert "at least one printable character" in refused.text


@pytest.mark.parametrize("odd", ["%00", "x" * 3000, "%ff", "..%2f..", "tok_nothing", "<script>"])
async def test_what_is_no_token_is_not_there(desk: Desk, odd: str) -> None:
    await desk.browser.sign_in("ada@example.com")
    path = f"{PAGE}/{odd}/revoke"
    assert (await desk.browser.get(path)).status_code in (400, 404)
    assert (await desk.browser.submit(PAGE, path)).status_code in (400, 404)
