"""The framework under testers that others wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.wire.mcp.stub import Stub, stub_server
from tests.wire.testers import ERAS, inspector, mcpcheck


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with stub_server() as serving:
        yield serving


async def test_mcpcheck_finds_nothing_wrong_with_the_transport_the_headers_and_the_errors(stub: Stub) -> None:
    ran = await mcpcheck(stub.url, stub.token, "--probe", "all", "--strict", "--skip", "schemas")
    assert ran.code == 0, ran.out + ran.err


@pytest.mark.needs("node", "npm")
@pytest.mark.parametrize("era", ERAS)
async def test_the_inspector_lists_and_calls_in_every_era(stub: Stub, era: str) -> None:
    listed = await inspector(stub.url, stub.token, era, "--method", "tools/list", "--strict")
    assert listed.code == 0, listed.err
    assert listed.json["tools"][0]["name"] == "rift_task_new"
    call = ["--method", "tools/call", "--tool-name", "rift_task_new", "--tool-arg", "name=hello", "count=3"]
    called = await inspector(stub.url, stub.token, era, *call)
    assert called.json["structuredContent"] == {"name": "hello", "count": 3}


@pytest.mark.needs("node", "npm")
async def test_the_inspector_shows_a_refusal_with_its_mend(stub: Stub) -> None:
    refused = await inspector(stub.url, stub.token, "modern", "--method", "tools/call", "--tool-name", "rift_task_new")
    assert 'rift_task_new {\\"name\\": \\"hello\\"}' in refused.out
