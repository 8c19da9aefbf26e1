"""A client that makes itself known: what is taken of it, and what is not."""

from __future__ import annotations

import pytest
from tests.wire.oauth.desk import CALLBACK, CLIENT, Desk

REGISTRATIONS = {
    "nothing": ({}, "invalid_client_metadata"),
    "no_list": ({"redirect_uris": "https://client.example/"}, "invalid_client_metadata"),
    "empty": ({"redirect_uris": []}, "invalid_client_metadata"),
    "many": ({"redirect_uris": [f"https://client.example/{n}" for n in range(21)]}, "invalid_client_metadata"),
    "number": ({"redirect_uris": [1]}, "invalid_client_metadata"),
    "name": ({"redirect_uris": [CALLBACK], "client_name": 1}, "invalid_client_metadata"),
    **{
        uri: ({"redirect_uris": [CALLBACK, uri]}, "invalid_redirect_uri")
        for uri in (
            "", "http://client.example/", "http://127.0.0.1.evil.example/", "https://", "https://*.example/",
            "https://client.example/*", "https://user@client.example/", "https://client.example/#x",
            "https://client.example:99999/", "https://a b/", "javascript:alert(1)", "JavaScript:alert(1)",
            "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:x", "about:blank", "view-source:x",
            "ms-msdt:/id", "search-ms:x", "ftp://client.example/", "x", "/callback", "https://client.example/\\x",
            "https://clïent.example/", "https://client.example/<script>", "x" * 3000,
        )
    },
}  # fmt: skip


@pytest.mark.parametrize(("said", "error"), REGISTRATIONS.values(), ids=[name[:30] for name in REGISTRATIONS])
async def test_what_no_client_can_be_is_not_registered(desk: Desk, said: dict[str, object], error: str) -> None:
    answer = await desk.http.post("/oauth2/register", json=said)
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert answer.headers["cache-control"] == "no-store"
    async with desk.deps.db.tx() as tx:
        assert await tx.rows("SELECT FROM clients") == []


async def test_a_registration_that_is_no_json_or_too_large_is_refused(desk: Desk) -> None:
    for content, kind in (
        (b"[]", "application/json"), (b"{", "application/json"), (b"\xff", "application/json"),
        (b"[" * 50_000, "application/json"), (b'{"x":"' + b"x" * 70_000 + b'"}', "application/json"),
        (b'{"redirect_uris": ["https://client.example/"]}', "text/plain"),
    ):  # fmt: skip
        answer = await desk.http.post("/oauth2/register", content=content, headers={"content-type": kind})
        assert answer.status_code == 400, (content[:20], kind)


async def test_a_client_is_a_public_one_whatever_it_asks_for(desk: Desk) -> None:
    said = {
        **CLIENT,
        "token_endpoint_auth_method": "client_secret_basic",
        "scope": "admin",
        "grant_types": ["implicit"],
    }
    given = (await desk.http.post("/oauth2/register", json=said)).json()
    assert (given["token_endpoint_auth_method"], given["scope"]) == ("none", "rift")
    assert given["grant_types"] == ["authorization_code", "refresh_token"]
    assert "client_secret" not in given
