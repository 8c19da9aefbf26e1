"""The resources and rift_docs over the real wire: what is listed is what is read is the page that is served."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from mcp import MCPError
from mcp_types import INVALID_PARAMS, TextResourceContents
from tests.wire.clients import HANDSHAKE, MODERN, PYTHON_MODES, Raw, python_client, text_of
from tests.wire.whole import Whole, whole_rift

from keel.testing.plugin import FreshDatabase
from rift.wire.docs import pages
from rift.wire.mcp import resources

NAMES = ["rift://onboard", "rift://nix-guide", "rift://feedback"]


@pytest.fixture
async def rift(database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole_rift(database, tmp_path) as made:
        yield made


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_each_resource_is_listed_and_is_its_page_word_for_word(rift: Whole, mode: str) -> None:
    folder = pages.folder()
    assert folder
    async with python_client(rift.url, rift.token, mode) as client:
        listed = (await client.list_resources()).resources
        assert [str(one.uri) for one in listed] == NAMES
        for one, ours in zip(listed, resources.RESOURCES, strict=True):
            (content,) = (await client.read_resource(one.uri)).contents
            assert isinstance(content, TextResourceContents)
            assert content.mime_type == one.mime_type == "text/markdown"
            assert one.title
            assert one.description
            assert one.size == len(content.text.encode())
            page = (folder / f"{ours.page}.md").read_text("utf-8")
            assert content.text in page
            assert "<!--" not in content.text
            served = await _get(rift, f"/docs/{ours.page}")
            assert served.status_code == 200


@pytest.mark.parametrize("mode", PYTHON_MODES)
@pytest.mark.parametrize("uri", ["rift://nothing", "rift://onboard/", "file:///etc/passwd", "rift://../secrets", "x:y"])
async def test_an_address_that_nothing_has_is_the_protocols_error(rift: Whole, mode: str, uri: str) -> None:
    async with python_client(rift.url, rift.token, mode) as client:
        with pytest.raises(MCPError) as told:
            await client.read_resource(uri)
    assert told.value.error.code == INVALID_PARAMS
    assert all(name in told.value.error.message for name in NAMES)


@pytest.mark.parametrize("uri", [None, 5, {}, "", "x" * 100_000, "rift://onboard\n", "RIFT://ONBOARD"])
@pytest.mark.parametrize("version", [MODERN, *HANDSHAKE])
async def test_an_odd_address_is_an_error_and_nothing_more(rift: Whole, uri: object, version: str) -> None:
    headers = {"Mcp-Name": "x"} if version == MODERN and not isinstance(uri, str) else {}
    if isinstance(uri, str) and version == MODERN:
        headers["Mcp-Name"] = uri[:100].strip() or "x"
    reply = await Raw(rift.url, rift.token).rpc("resources/read", {"uri": uri}, version=version, headers=headers)
    assert reply.status < 500
    assert reply.error["code"] < 0
    assert len(json.dumps(reply.error)) < 2000


async def test_what_is_read_may_be_kept_a_while_by_everybody(rift: Whole) -> None:
    raw = Raw(rift.url, rift.token)
    for method, params in (("resources/list", {}), ("resources/read", {"uri": NAMES[0]})):
        result = (await raw.rpc(method, params)).result
        assert result["ttlMs"] > 0
        assert result["cacheScope"] == "public"


async def test_nobody_reads_a_resource_without_a_token(rift: Whole) -> None:
    for token in (None, "rift_wrong"):
        assert (await Raw(rift.url, token).rpc("resources/read", {"uri": NAMES[0]})).status == 401


async def test_the_url_of_every_page_is_answered_and_each_is_there(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        result = await client.call_tool("rift_docs", {})
    said = text_of(result)
    assert not result.is_error
    public = rift.deps.settings.server.address
    urls = re.findall(rf"^  {re.escape(public)}(/docs/\S+) — (.+): (.+)$", said, re.MULTILINE)
    assert [url for url, _, _ in urls] == [f"/docs/{page.name}" for page in pages.listed()]
    assert said.startswith(f"The documentation: {public}/docs ")
    for path in ["/docs", *(url for url, _, _ in urls)]:
        assert (await _get(rift, path)).status_code == 200, path
    assert len(said) < 6000


async def test_the_walk_leads_from_whoami_to_a_first_box_and_back(rift: Whole) -> None:
    """An agent that knows the walk alone, and does what each line says, to the letter."""
    async with python_client(rift.url, rift.token) as client:
        (walk,) = (await client.read_resource("rift://onboard")).contents
        assert isinstance(walk, TextResourceContents)
        first = re.search(r"^1\. Call `(\w+)`", walk.text, re.MULTILINE)
        assert first
        for _ in range(5):
            said = text_of(await client.call_tool(first[1], {}))
            gaps = re.findall(r"^gap: .* -> (rift_\w+) (\{.*\})$", said, re.MULTILINE)
            if not gaps:
                break
            tool, arguments = gaps[0]
            assert f"`{tool}`" in walk.text, "the walk tells of every tool that closes a gap"
            assert not (await client.call_tool(tool, json.loads(arguments))).is_error
        ready = re.findall(r"^ready: (rift_\w+) (\{.*\})$", said, re.MULTILINE)
        assert [tool for tool, _ in ready] == ["rift_task_new", "rift_vm_new"]
        opened = text_of(await client.call_tool("rift_task_new", {"name": "The first"}))
        handle = re.search(r"^handle: (\S+)$", opened, re.MULTILINE)
        assert handle
        taken = await client.call_tool("rift_vm_new", {**json.loads(ready[1][1]), "task": handle[1]})
        assert text_of(taken).startswith(("running", "starting"))
        closed = await client.call_tool("rift_task_close", {"task": handle[1]})
        assert not closed.is_error
        named = set(re.findall(r"`(rift_\w+)`", walk.text))
        assert {"rift_bash", "rift_output", "rift_vm_suspend", "rift_task_close"} <= named


async def _get(rift: Whole, path: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        return await http.get(rift.url.removesuffix("/mcp") + path)
