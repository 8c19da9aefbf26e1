"""The door before MCP: hosts, pages, tokens, sizes; and the rules of the transport, over bare HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio
from tests.wire.clients import META, MODERN, Raw
from tests.wire.mcp.stub import TOKEN, Stub, stub_server

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
HEADERS = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stub() -> AsyncIterator[Stub]:
    async with stub_server(body_bytes=100_000) as serving:
        yield serving


@pytest.fixture
def raw(stub: Stub) -> Raw:
    return Raw(stub.url, stub.token)


async def test_a_call_with_a_token_is_served_at_the_path_with_and_without_a_slash(stub: Stub) -> None:
    for url in (stub.url, f"{stub.url}/"):
        assert (await Raw(url, TOKEN).rpc("tools/list")).status == 200


@pytest.mark.parametrize("sent", [None, "", "Bearer", "Basic cmlmdA==", f"Token {TOKEN}", TOKEN])
async def test_a_call_without_a_bearer_token_is_told_where_to_get_one(raw: Raw, sent: str | None) -> None:
    reply = await raw.post(LIST, {**HEADERS, "Authorization": sent})
    assert reply.status == 401
    challenge = reply.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert 'resource_metadata="https://rift.example/.well-known/oauth-protected-resource/mcp"' in challenge
    assert 'scope="rift"' in challenge
    assert "rift token new" in reply.error["message"]


async def test_an_unknown_token_is_told_to_be_one_and_not_repeated(raw: Raw) -> None:
    reply = await raw.post(LIST, {**HEADERS, "Authorization": "Bearer rift_wrong-one"})
    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]
    assert "wrong-one" not in str(reply)


async def test_the_scheme_is_read_in_any_case(raw: Raw) -> None:
    assert (await raw.rpc("tools/list", headers={"Authorization": f"bearer {TOKEN}"})).status == 200


async def test_a_client_is_told_to_come_back_while_tokens_cannot_be_checked(raw: Raw) -> None:
    reply = await raw.rpc("tools/list", headers={"Authorization": "Bearer rift_broken"})
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert "database" not in str(reply)


async def test_blanks_around_a_header_are_no_part_of_it(stub: Stub) -> None:
    """Python's HTTP clients refuse to send them, so these are written by hand."""
    body = json.dumps(LIST).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\t\r\nConnection: close\r\nAuthorization:  Bearer {TOKEN} \r\n"
        f"Content-Type: application/json\r\nMCP-Protocol-Version: {MODERN}  \r\nMcp-Method: \ttools/list\t \r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stub.url.split(":")[2].split("/")[0]))
    writer.write(head.encode() + body)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_a_token_in_the_address_is_none(stub: Stub) -> None:
    assert (await Raw(f"{stub.url}?access_token={TOKEN}", None).rpc("tools/list")).status == 401


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
async def test_a_probe_with_another_method_gets_the_challenge_first_and_405_after_it(stub: Stub, method: str) -> None:
    async with httpx2.AsyncClient() as http:
        probe = await http.request(method, stub.url)
        assert probe.status_code == 401
        assert "resource_metadata" in probe.headers["www-authenticate"]
        known = await http.request(method, stub.url, headers={"Authorization": f"Bearer {TOKEN}"})
    assert known.status_code == 405
    assert known.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9", "127.0.0.1:1", "127.5.5.5", "[::1]:8080", "rift.example", "rift.example:8443"]
)
async def test_loopback_with_any_port_and_the_configured_hosts_are_answered(raw: Raw, host: str) -> None:
    assert (await raw.rpc("tools/list", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "rift.example.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "u@localhost",
        "localhost:x",
        "[::1",
    ],
)
async def test_another_host_is_421(raw: Raw, host: str) -> None:
    assert (await raw.rpc("tools/list", headers={"Host": host})).status == 421


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1", "https://rift.example"])
async def test_a_page_of_ours_may_call(raw: Raw, origin: str) -> None:
    assert (await raw.rpc("tools/list", headers={"Origin": origin})).status == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "file://localhost", "http://localhost.evil.example", "", "http://[", "http://"],
)
async def test_another_page_is_403_with_or_without_a_token(stub: Stub, origin: str) -> None:
    for token in (TOKEN, None):
        assert (await Raw(stub.url, token).rpc("tools/list", headers={"Origin": origin})).status == 403


async def test_a_body_up_to_the_limit_is_taken_and_one_over_it_is_refused_with_the_limit(raw: Raw) -> None:
    body = json.dumps({**LIST, "params": {"_meta": META, "pad": ""}}).encode()
    padded = body.replace(b'"pad": ""', b'"pad": "' + b"x" * (100_000 - len(body)) + b'"')
    assert (await raw.post(padded, HEADERS)).status == 200
    reply = await raw.post(padded + b" ", HEADERS)
    assert reply.status == 413
    assert "(100000 bytes)" in reply.error["message"]
    assert "rift_write" in reply.error["message"]


async def test_a_large_body_is_read_away_so_that_its_sender_gets_the_answer(raw: Raw) -> None:
    assert (await raw.post(b" " * 20_000_000, HEADERS)).status == 413


async def test_a_body_in_pieces_is_counted_too(stub: Stub) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 10_000

    async with httpx2.AsyncClient() as http:
        headers = {**HEADERS, "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        reply = await http.post(stub.url, content=pieces(), headers=headers)
    assert reply.status_code == 413


async def test_a_sender_that_goes_away_half_way_is_forgotten(stub: Stub, raw: Raw) -> None:
    port = int(stub.url.split(":")[2].split("/")[0])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 5000\r\n\r\n"
    writer.write(head.encode() + b"{")
    await writer.drain()
    writer.close()
    assert (await raw.rpc("tools/list")).status == 200


@pytest.mark.parametrize("accept", [None, "application/json", "*/*", "text/event-stream", "text/html"])
@pytest.mark.parametrize("version", [MODERN, "2025-11-25", "2025-06-18"])
async def test_any_accept_is_tolerated(raw: Raw, accept: str | None, version: str) -> None:
    reply = await raw.rpc("tools/list", version=version, headers={"Accept": accept})
    assert reply.status == 200
    assert len(reply.result["tools"]) == 8
    if accept in (None, "application/json"):
        assert reply.headers["content-type"] == "application/json"


async def test_an_old_session_id_is_ignored(raw: Raw) -> None:
    for version in (MODERN, "2025-11-25"):
        assert (await raw.rpc("tools/list", version=version, headers={"Mcp-Session-Id": "gone"})).status == 200


@pytest.mark.parametrize("headers", [{"Mcp-Method": "tools/call"}, {"Mcp-Method": None}])
async def test_headers_that_disagree_with_the_body_are_refused(raw: Raw, headers: dict[str, str | None]) -> None:
    reply = await raw.rpc("tools/list", headers=headers)
    assert (reply.status, reply.error["code"]) == (400, -32020)


async def test_a_name_that_disagrees_with_the_body_is_refused(raw: Raw) -> None:
    reply = await raw.call("rift_task_new", {"name": "x"}, headers={"Mcp-Name": "rift_bash"})
    assert (reply.status, reply.error["code"]) == (400, -32020)


async def test_an_unknown_revision_is_told_which_are_served(raw: Raw) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2031-01-01", "io.modelcontextprotocol/clientCapabilities": {}}
    body = {**LIST, "params": {"_meta": meta}}
    reply = await raw.post(body, {**HEADERS, "MCP-Protocol-Version": "2031-01-01"})
    assert (reply.status, reply.error["code"]) == (400, -32022)
    assert MODERN in reply.error["data"]["supported"]


async def test_an_unknown_method_is_404_at_the_newest_revision(raw: Raw) -> None:
    reply = await raw.rpc("tools/dance")
    assert (reply.status, reply.error["code"]) == (404, -32601)


@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 50_000, b"5", b'{"jsonrpc": "2.0"}'])
@pytest.mark.parametrize("version", [MODERN, "2025-11-25"])
async def test_a_body_that_is_no_request_is_400_and_nothing_breaks(raw: Raw, body: bytes, version: str) -> None:
    reply = await raw.post(body, {**HEADERS, "MCP-Protocol-Version": version})
    assert reply.status == 400
    assert (await raw.rpc("tools/list")).status == 200


async def test_the_token_is_in_no_log_line(
    stub: Stub, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    await Raw(stub.url, TOKEN).rpc("tools/list")
    await Raw(stub.url, TOKEN + "x").rpc("tools/list")
    await Raw(stub.url, TOKEN).call("rift_task_release", {})
    printed = capsys.readouterr()
    assert TOKEN not in caplog.text + printed.out + printed.err
