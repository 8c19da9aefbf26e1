"""The door of the admin API: who is let in, what is read, and that everything it says is a problem document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.behaviour.onbe.directory.office import BASE, KEY, Office, office, registration

from keel.ids import digest
from keel.testing.plugin import FreshDatabase
from onbe.names import BODY_BYTES
from onbe.settings import AdminSettings, OnbeSettings

ANOTHER = "another-key-of-tests-" + "z" * 20
JSON = {"Content-Type": "application/json"}


def problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document that an answer is; fails where it is none, or another."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert (document["type"], document["status"]) == (f"urn:onbe:refusal:{code}", status)
    assert document["detail"]
    return document


NO_KEY = (
    None, "", "Bearer", "Bearer ", f"Basic {KEY}", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Bearer x{KEY}", KEY,
    f"Bearer sha256:{digest(KEY).hex()}", "Bearer \xe9\xe9",
)  # fmt: skip


@pytest.mark.parametrize("path", ["/agents", "/openapi.json", "/nothing", "/agents/%2e%2e", "/x%0ay"])
async def test_who_has_no_key_is_told_so_and_recorded(admin: Office, path: str) -> None:
    for shown in NO_KEY:
        async with admin.stranger() as stranger:
            headers = [] if shown is None else [(b"Authorization", shown.encode("latin-1"))]
            answer = await stranger.get(path, headers=headers)
        problem(answer, 401, "admin_key_wrong")
        assert answer.headers["www-authenticate"] == 'Bearer realm="onbe admin"'
    records = await admin.records()
    assert [(one["action"], one["outcome"]) for one in records] == [("admin.denied", "admin_key_wrong")]
    assert await admin.rows("SELECT reason, count FROM strangers") == [
        {"reason": "admin_key_wrong", "count": len(NO_KEY)}
    ]
    assert KEY[4:] not in json.dumps(records)


async def test_a_key_that_is_sent_twice_is_none(admin: Office) -> None:
    async with admin.stranger() as stranger:
        twice = [("Authorization", f"Bearer {KEY}"), ("Authorization", f"Bearer {KEY}")]
        problem(await stranger.get("/agents", headers=twice), 401, "admin_key_wrong")


async def test_without_a_configured_key_nobody_is_let_in(onbe_database: FreshDatabase, tmp_path: Path) -> None:
    async with office(onbe_database, tmp_path, OnbeSettings()) as closed:
        for headers in ({}, {"Authorization": f"Bearer {KEY}"}, {"Authorization": "Bearer "}):
            async with closed.stranger() as stranger:
                problem(await stranger.get("/agents", headers=headers), 503, "admin_unconfigured")


async def test_two_keys_are_good_while_one_replaces_the_other(onbe_database: FreshDatabase, tmp_path: Path) -> None:
    settings = OnbeSettings(admin=AdminSettings(keys=(KEY, f"sha256:{digest(ANOTHER).hex()}")))
    async with office(onbe_database, tmp_path, settings) as admin:
        for key, status in ((KEY, 200), (ANOTHER, 200), (settings.admin.keys[0], 401), (settings.admin.keys[1], 401)):
            async with admin.stranger(f"Bearer {key}") as client:
                assert (await client.get("/agents")).status_code == status, key
    assert KEY not in repr(settings)
    assert KEY not in str(settings.model_dump())


async def test_a_stranger_s_body_is_not_read(admin: Office) -> None:
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield b"x" * 65536

    async with admin.stranger("Bearer wrong") as stranger:
        problem(await stranger.post("/agents", content=body(), headers=JSON), 401, "admin_key_wrong")
    assert read == 0


async def test_a_body_over_the_bound_is_refused(admin: Office) -> None:
    async def parts(size: int) -> AsyncIterator[bytes]:
        for start in range(0, size, 65536):
            yield b" " * min(65536, size - start)

    for size in (BODY_BYTES + 1, 4 * BODY_BYTES, 40 * BODY_BYTES):
        for content in (b" " * size, parts(size)):
            answer = await admin.http.post("/agents", content=content, headers=JSON)
            assert str(BODY_BYTES) in problem(answer, 413, "too_large")["detail"]


async def test_a_body_of_just_the_bound_is_read(admin: Office) -> None:
    text = json.dumps(registration()).encode()
    answer = await admin.http.post("/agents", content=text + b" " * (BODY_BYTES - len(text)), headers=JSON)
    assert answer.status_code == 201


MALFORMED = (
    ("nothing", b"", "not JSON at line 1, column 1"),
    ("half an object", b'{"agent_id": "secret-1"', "not JSON at line 1"),
    ("a member twice", b'{"agent_id": "secret-1", "agent_id": "secret-2"}', "agent_id is there twice"),
    ("a member twice, deep", b'{"jwks": {"keys": [{"kid": "secret-1", "kid": "secret-2"}]}}', "kid is there twice"),
    ("a member twice, told otherwise", b'{"agent_id": "secret-1", "agent\\u005fid": 2}', "agent_id is there twice"),
    ("NaN", b'{"max_delegation_depth": NaN}', "NaN or Infinity"),
    ("a number without end", b'{"max_delegation_depth": 1e999}', "too large"),
    ("a number of many digits", b'{"max_delegation_depth": ' + b"9" * 5000 + b"}", "too large"),
    ("deep", b'{"jwks": ' + b"[" * 40 + b"]" * 40 + b"}", "nests deeper"),
    ("deeper", b"[" * 30000 + b"]" * 30000, "nests deeper"),
    ("not UTF-8", b'{"display_name": "\xff\xfe"}', "not UTF-8"),
    ("UTF-16", '{"agent_id": "x"}'.encode("utf-16"), "not UTF-8"),
    ("a byte order mark", b"\xef\xbb\xbf{}", "not JSON"),
    ("two values", b"{} {}", "not JSON at line 1, column 4"),
    ("single quotes", b"{'agent_id': 'secret-1'}", "not JSON"),
)  # fmt: skip


async def test_a_body_that_is_no_json_is_told_without_being_repeated(admin: Office) -> None:
    await admin.register()
    for name, body, says in MALFORMED:
        for method, path in (("POST", "/agents"), ("PATCH", "/agents/mailer")):
            answer = await admin.http.request(method, path, content=body, headers=JSON)
            assert says in problem(answer, 400, "malformed_request")["detail"], name
            assert "secret" not in answer.text


async def test_another_media_type_is_refused_and_json_is_taken_however_it_is_spelled(admin: Office) -> None:
    body = json.dumps(registration()).encode()
    for headers in (
        {}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=latin-1"}, {"Content-Type": "application/jsonx"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"}, {"Content-Type": "multipart/form-data"},
    ):  # fmt: skip
        answer = await admin.http.post("/agents", content=body, headers=headers)
        assert "application/json" in problem(answer, 415, "media_type_unknown")["detail"]
    for kind in ("application/json", "application/json;charset=UTF-8", "Application/JSON"):
        answer = await admin.http.post("/agents?dry_run=true", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 201


async def test_a_path_that_is_none_is_a_problem_and_no_redirect(admin: Office) -> None:
    for path in (
        "",
        "/",
        "/nothing",
        "/agents/",
        "/agents/a/b",
        "/agents/a%2Fb",
        "/docs",
        "//agents",
        "/x%0ay",
        "/%0a",
    ):
        problem(await asked(admin, "GET", f"/admin{path}"), 404, "path_unknown")


async def test_a_method_that_is_none_names_those_that_are(admin: Office) -> None:
    for path, takes in (("/agents", "GET, POST"), ("/agents/mailer", "DELETE, GET, PATCH"), ("/openapi.json", "GET")):
        for method in ("PUT", "OPTIONS", "TRACE", "PURGE"):
            answer = await admin.http.request(method, path)
            problem(answer, 405, "method_unknown")
            assert answer.headers["allow"] == takes


async def test_a_parameter_that_is_wrong_is_named_and_not_repeated(admin: Office) -> None:
    for query in ("limit=0", "limit=201", "limit=secret", "after=%00", "after=SECRET", "limit=", "after=../secret"):
        answer = await asked(admin, "GET", f"/admin/agents?{query}")
        assert query.partition("=")[0] in problem(answer, 400, "malformed_request")["detail"]
        assert "secret" not in answer.text.lower()


async def test_a_parameter_that_nobody_knows_is_refused_and_so_is_one_twice(admin: Office) -> None:
    """A dry run that is spelled otherwise must not be none."""
    await admin.register()
    for method, path, name in (
        ("PATCH", "/agents/mailer?dry-run=true", "dry-run"),
        ("PATCH", "/agents/mailer?dry_run=true&dry_run=false", "dry_run"),
        ("POST", "/agents?dryrun=true", "dryrun"),
        ("GET", "/agents?limit=1&limit=2", "limit"),
        ("GET", "/agents?limit=1&page=2", "page"),
        ("GET", "/agents/mailer?x%0a=", "x\ufffd"),
        ("DELETE", "/agents/mailer?dry_run=true", "dry_run"),
        ("DELETE", "/agents/mailer/tasks?dry_run=true", "dry_run"),
    ):
        answer = await admin.http.request(method, path, json={"display_name": "Post"} if method != "GET" else None)
        assert f"parameter {name}" in problem(answer, 400, "malformed_request")["detail"]
    assert (await admin.http.get("/agents/mailer")).json()["display_name"] == "The mailer"
    assert len(await admin.records()) == 1


ODD = (
    "..", "%2e%2e", "..%2f..%2fetc", "%00", "a%00b", "Mailer", "m%C3%A4iler", "%F0%9F%92%A3", "a" * 65, "%ff", "a%20b",
    "%0d%0aX:%20y", "'", "%25", "-a", "a;b", "mailer%20", "mailer%0a", "%ed%a0%80",
)  # fmt: skip


async def test_an_odd_id_is_no_agent_s_and_is_not_repeated(admin: Office) -> None:
    before = (await admin.register()).json()
    for odd in ODD:
        for method in ("GET", "PATCH", "DELETE"):
            answer = await asked(admin, method, f"/admin/agents/{odd}", b"{}" if method == "PATCH" else b"")
            problem(answer, 404, "path_unknown" if "%2f" in odd or odd == ".." else "agent_unknown")
            assert "mailer" not in answer.text
    assert (await admin.http.get("/agents/mailer")).json() == before


async def asked(admin: Office, method: str, path: str, body: bytes = b"") -> httpx2.Response:
    """A request with just this path, which a client would tidy up."""
    url = httpx2.URL(BASE).copy_with(raw_path=path.encode())
    return await admin.http.send(admin.http.build_request(method, url, content=body, headers=JSON if body else {}))


async def test_a_slow_body_is_given_up_and_nothing_is_held_meanwhile(admin: Office) -> None:
    from onbe.wire.admin import api
    from onbe.wire.admin.guard import Guard

    never = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await never.wait()

    guard = Guard(api(admin.deps), admin.deps, body_seconds=0.05)
    headers = {"Authorization": f"Bearer {KEY}", **JSON}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guard), base_url="http://x", headers=headers) as http:
        problem(await http.post("/agents", content=body()), 408, "too_slow")
        assert admin.deps.db.use().used == 0


async def test_a_database_that_is_away_is_said_and_nothing_is_let_through(admin: Office) -> None:
    await admin.deps.db.__aexit__(None, None, None)
    admin.deps.db._patience = 0.2
    problem(await admin.http.get("/agents"), 503, "database_away")
    async with admin.stranger() as stranger:
        problem(await stranger.get("/agents"), 503, "database_away")


async def test_the_document_names_its_key_and_every_operation(admin: Office) -> None:
    document = (await admin.http.get("/openapi.json")).json()
    assert document["security"] == [{"key": []}]
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert {"401", "413", "500", "503"} <= operation["responses"].keys(), (method, path)
            assert operation["summary"]
