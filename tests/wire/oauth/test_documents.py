"""Clients whose id is the address of a document about them."""

from __future__ import annotations

import pytest
from tests.wire.oauth.desk import CALLBACK, Desk, is_redirect, path

from keel.testing import FakeClock
from rift.drivers.documents.fake import FakeDocuments
from rift.people import actions as people

URL = "https://client.example/oauth/mcp.json"
DOCUMENT = {
    "client_id": URL, "client_name": "Claude Code", "client_uri": "https://client.example",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}  # fmt: skip


async def test_a_client_is_known_by_its_document_and_the_page_names_whose_it_is(
    desk: Desk, documents: FakeDocuments
) -> None:
    documents.there[URL] = DOCUMENT
    await desk.browser.sign_in("ada@example.com")
    page = (await desk.browser.get(path(URL))).text
    for shown in ("Claude Code", "client.example", URL):
        assert shown in page
    given = (await desk.exchange(URL, await desk.code(URL))).json()
    caller = await people.authenticate(desk.deps, given["access_token"])
    assert caller is not None
    assert caller.label == "mcp:Claude Code"
    assert (await desk.renew(URL, given["refresh_token"])).status_code == 200
    assert documents.read_at == [URL]
    assert "by client.example" in (await desk.browser.get("/app/connections")).text


async def test_for_strangers_no_document_of_others_is_read(desk: Desk, documents: FakeDocuments) -> None:
    documents.there[URL] = DOCUMENT
    answer = await desk.browser.get(path(URL))
    assert answer.headers["location"].startswith("/sign-in?next=%2Foauth2%2Fauthorize")
    assert documents.read_at == []


@pytest.mark.parametrize(
    ("said", "least", "most"), [(None, 300, 300), (0.0, 300, 300), (3600.0, 3600, 3600), (1e9, 86400, 86400)]
)
async def test_a_document_is_read_again_when_it_is_not_fresh_any_more(
    desk: Desk, documents: FakeDocuments, clock: FakeClock, said: float | None, least: int, most: int
) -> None:
    documents.there[URL], documents.max_age = DOCUMENT, said
    await desk.browser.sign_in("ada@example.com")
    await desk.browser.get(path(URL))
    clock.advance(least - 1)
    await desk.browser.get(path(URL))
    assert len(documents.read_at) == 1
    documents.there[URL] = {**DOCUMENT, "redirect_uris": ["https://client.example/callback"]}
    clock.advance(most - least + 1)
    page = await desk.browser.get(path(URL))
    assert len(documents.read_at) == 2
    assert "not an address that it made known" in page.text


BAD = {
    "missing": None,
    "another_id": {**DOCUMENT, "client_id": "https://client.example/oauth/other.json"},
    "no_id": {name: value for name, value in DOCUMENT.items() if name != "client_id"},
    "a_secret": {**DOCUMENT, "token_endpoint_auth_method": "client_secret_post"},
    "a_key": {**DOCUMENT, "token_endpoint_auth_method": "private_key_jwt"},
    "a_secret_in_it": {**DOCUMENT, "client_secret": "x"},
    "no_addresses": {**DOCUMENT, "redirect_uris": []},
    "a_script": {**DOCUMENT, "redirect_uris": [CALLBACK, "javascript:alert(1)"]},
    "a_name_that_is_none": {**DOCUMENT, "client_name": ["x"]},
}


@pytest.mark.parametrize("document", BAD.values(), ids=BAD)
async def test_a_document_that_cannot_be_used_is_told_on_the_page_and_nothing_is_sent(
    desk: Desk, documents: FakeDocuments, document: dict[str, object] | None
) -> None:
    if document is not None:
        documents.there[URL] = document
    await desk.browser.sign_in("ada@example.com")
    page = await desk.browser.get(path(URL))
    assert (page.status_code, is_redirect(page)) == (400, False)
    assert f"description at {URL} cannot be used" in page.text


@pytest.mark.parametrize(
    "url",
    ["https://client.example", "https://client.example/", "https://client.example/#x", "https://user@client.example/x",
     "https://client.example/../x", "https://client.example/%2e%2e/x", "https:///x", "https://client.example:99999/x",
     "https://client.example\\@evil.example/x", "https://clïent.example/x", "HTTPS://client.example/x",
     "https:client.example/x"],
)  # fmt: skip
async def test_what_is_no_address_of_a_document_is_not_asked(desk: Desk, documents: FakeDocuments, url: str) -> None:
    await desk.browser.sign_in("ada@example.com")
    page = await desk.browser.get(path(url))
    assert (page.status_code, is_redirect(page)) == (400, False)
    assert documents.read_at == []


async def test_a_document_without_a_name_goes_by_its_host(desk: Desk, documents: FakeDocuments) -> None:
    documents.there[URL] = {**DOCUMENT, "client_name": "\u200b"}
    await desk.browser.sign_in("ada@example.com")
    assert "<h1>Let client.example act for you?</h1>" in (await desk.browser.get(path(URL))).text
