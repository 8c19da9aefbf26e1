"""MCP clients that others wrote sign in by the address alone, call, renew, and are refused once they are ended."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from tests.wire.clients import Raw, text_of
from tests.wire.oauth.standing import Standing, standing

from rift.connections import actions
from rift.deps import Deps
from rift.drivers.documents.fake import FakeDocuments
from rift.people import actions as people


@pytest.fixture
async def rift(deps: Deps) -> AsyncIterator[Standing]:
    """A whole Rift at a port."""
    async with standing(deps) as made:
        yield made


class Kept:
    """What the Python client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@asynccontextmanager
async def python(
    rift: Standing,
    kept: Kept,
    *,
    document: str | None = None,
    mode: str = "auto",
    asked: list[str] | None = None,
    providers: list[OAuthClientProvider] | None = None,
) -> AsyncIterator[Client]:
    """The official Python client with its OAuth provider; `asked` collects what it has the browser open."""
    gone: list[str] = []

    async def redirect(url: str) -> None:
        if asked is not None:
            asked.append(url)
        gone.append(await rift.consent(url))

    async def back() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(gone.pop()).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    said = OAuthClientMetadata.model_validate(
        {"client_name": "Python client", "redirect_uris": ["http://localhost:3030/callback"],
         "token_endpoint_auth_method": "none"}
    )  # fmt: skip
    provider = OAuthClientProvider(rift.mcp, said, kept, redirect, back, client_metadata_url=document)
    if providers is not None:
        providers.append(provider)
    async with AsyncExitStack() as held:
        http = await held.enter_async_context(create_mcp_http_client(auth=provider))
        transport = streamable_http_client(rift.mcp, http_client=http)
        yield await held.enter_async_context(Client(transport, mode=mode, cache=None))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_python_client_signs_in_by_the_address_alone_and_is_known_by_its_name(
    rift: Standing, mode: str
) -> None:
    kept = Kept()
    async with python(rift, kept, mode=mode) as client:
        assert rift.email in text_of(await client.call_tool("rift_whoami", {}))
        await client.call_tool("rift_task_new", {"name": "by address"})
        assert "mcp:Python client" in text_of(await client.call_tool("rift_task_ls", {}))
    assert kept.client is not None
    assert str(kept.client.client_id).startswith("client_")


async def test_the_python_client_is_known_by_its_document_where_it_has_one(
    rift: Standing, documents: FakeDocuments
) -> None:
    url = "https://client.example/mcp.json"
    documents.there[url] = {
        "client_id": url, "client_name": "By document", "redirect_uris": ["http://localhost:3030/callback"]
    }  # fmt: skip
    kept = Kept()
    async with python(rift, kept, document=url) as client:
        await client.call_tool("rift_task_new", {"name": "by document"})
        assert "mcp:By document" in text_of(await client.call_tool("rift_task_ls", {}))
    assert documents.read_at == [url]


async def test_the_python_client_renews_without_its_person(rift: Standing) -> None:
    kept, asked, providers = Kept(), list[str](), list[OAuthClientProvider]()
    async with python(rift, kept, asked=asked, providers=providers) as client:
        await client.call_tool("rift_whoami", {})
        assert kept.tokens is not None
        first = kept.tokens.access_token
        providers[0].context.token_expiry_time = 1.0  # as if its hour were over
        assert rift.email in text_of(await client.call_tool("rift_whoami", {}))
        assert kept.tokens.access_token != first
    assert len(asked) == 1


async def test_a_token_that_is_revoked_on_the_page_fails_on_its_next_call(rift: Standing) -> None:
    kept, asked = Kept(), list[str]()
    async with python(rift, kept, asked=asked) as client:
        await client.call_tool("rift_whoami", {})
        assert kept.tokens is not None
        (connection,) = await actions.connections(rift.deps, await _user(rift))
        page = f"/app/connections/{connection.id}/revoke"
        csrf = (await rift.http.get(page)).text.partition('name="csrf" value="')[2].partition('"')[0]
        told = {"origin": rift.public, "sec-fetch-site": "same-origin"}
        assert (await rift.http.post(page, data={"csrf": csrf}, headers=told)).status_code == 303
        raw = await Raw(rift.mcp, kept.tokens.access_token).call("rift_whoami")
        assert raw.status == 401
        assert f'resource_metadata="{rift.public}/.well-known/' in raw.headers["www-authenticate"]
        assert len(asked) == 1
        await client.call_tool("rift_whoami", {})  # its person is asked anew
        assert len(asked) == 2


async def test_a_client_whose_person_says_no_hears_it(rift: Standing) -> None:
    said = OAuthClientMetadata.model_validate({"redirect_uris": ["http://localhost:3030/callback"]})
    gone: list[str] = []

    async def redirect(url: str) -> None:
        gone.append(await rift.consent(url, "deny"))

    async def back() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(gone.pop()).query)
        raise OAuthFlowError(query["error"][0])

    provider = OAuthClientProvider(rift.mcp, said, Kept(), redirect, back)
    async with create_mcp_http_client(auth=provider) as http:
        with pytest.raises(OAuthFlowError, match="access_denied"):
            await http.post(rift.mcp, json={})


async def test_authlab_signs_in_and_finds_nothing_of_consequence(rift: Standing, tmp_path: Path) -> None:
    program = str(Path(sys.executable).parent / "mcp-authlab")
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "BROWSER": "/bin/true"}
    login = await asyncio.create_subprocess_exec(
        program, "login", rift.mcp, "--no-color", "--timeout", "60", env=env,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said = await rift.driven(login)
    assert login.returncode == 0, said
    report = tmp_path / "report.json"
    scan = await asyncio.create_subprocess_exec(
        program, "scan", rift.mcp, "--format", "json", "--output", str(report), "--fail-under", "A", env=env,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(scan.communicate(), 120)
    found = json.loads(report.read_text())
    assert scan.returncode == 0, (out.decode(), json.dumps(found, indent=1)[:6000])
    assert found["critical_failures"] == found["must_failures"] == []
    # This machine has no https; and a code is over once it was presented wrongly, so one probe has none left.
    assert {one["id"]: one["status"] for one in found["results"] if one["status"] in ("warn", "fail")} == {
        "TLS-01": "warn"
    }


async def _user(rift: Standing) -> str:
    async with rift.deps.db.tx() as tx:
        found = await people.find(tx, rift.email)
    assert found is not None
    return found.id
