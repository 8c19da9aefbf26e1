"""The samples, run as a reader would: an agent in a process of its own, a tool server, an MCP server."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp
from tests.arch.source import ROOT
from tests.behaviour.onbe.client.live import Live, Port, live_onbe, served

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe_client import OnbeClient

SAMPLES = ROOT / "packages/onbe-client/samples"


@pytest.fixture
def clock() -> FakeClock:
    """The samples run by the machine's own clock, so Onbe stands at this moment."""
    return FakeClock(datetime.now(UTC))


@pytest.fixture
async def live(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[Live]:
    async with live_onbe(onbe_database, clock) as made:
        yield made


def app_of(sample: str) -> ASGIApp:
    """The `app` of a sample, loaded as uvicorn loads it."""
    spec = importlib.util.spec_from_file_location(f"sample_{sample}", SAMPLES / f"{sample}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # what a tool's annotations name is looked up there
    spec.loader.exec_module(module)
    app: ASGIApp = module.app
    return app


async def run(sample: str, **environment: str) -> tuple[int | None, str]:
    """Exit code and output of a sample that is a program."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, SAMPLES / f"{sample}.py", env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_the_sample_agent_works_on_the_sample_tool_server_with_a_sub_agent(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = Port()
    monkeypatch.setenv("ONBE_ISSUER", live.issuer)
    monkeypatch.setenv("TOOL", port.url)
    environment = {"SUBJECT_TOKEN": live.world.subject("ada"), "ONBE_GRANTS": str(tmp_path / "grants.json")}
    for name, variable in (("scribe", "ONBE_KEY"), ("helper", "ONBE_HELPER_KEY")):
        await live.world.register(name, allowed_audiences=[port.url], max_delegation_depth=2)
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(live.key(name)))
        environment[variable] = str(file)
    async with served(app_of("tool_server"), port):
        code, said = await run("agent", **environment)
        async with httpx2.AsyncClient(base_url=port.url) as http:
            refused = await http.get("/documents/1")
            assert (await http.get("/health")).text == "ok"
            metadata = await http.get("/.well-known/oauth-protected-resource")
    assert code == 0, said
    assert said.splitlines() == [
        *(f"scribe: {{'document': '{number}', 'for': 'ada', 'by': 'scribe'}}" for number in (1, 2, 3)),
        "helper: {'document': '1', 'for': 'ada', 'by': 'helper'}",
    ]
    assert refused.status_code == 401
    assert metadata.json()["authorization_servers"] == [live.issuer]
    assert json.loads((tmp_path / "grants.json").read_text()) == {"grants": {}}


async def test_the_sample_mcp_server_takes_task_tokens_and_nothing_else(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = Port()
    address = f"{port.url}/mcp"
    monkeypatch.setenv("ONBE_ISSUER", live.issuer)
    monkeypatch.setenv("MCP", address)
    await live.world.register("scribe", allowed_audiences=[address, port.url])
    async with (
        served(app_of("mcp_server"), port),
        OnbeClient(live.issuer, "scribe", live.key("scribe")) as onbe,
        httpx2.AsyncClient() as stranger,
    ):
        unasked = await stranger.post(address, json={})
        assert unasked.status_code == 401
        assert "resource_metadata=" in unasked.headers["www-authenticate"]
        for resource, scope, status in ((port.url, "docs:read", 401), (address, "docs:write", 403)):
            wrong = await onbe.exchange(live.world.subject("ada"), resource, scope)
            headers = {"Authorization": f"Bearer {await wrong.access_token()}"}
            assert (await stranger.post(address, json={}, headers=headers)).status_code == status
        task = await onbe.exchange(live.world.subject("ada"), address, "docs:read")
        async with (
            httpx2.AsyncClient(auth=task.auth()) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            result: Any = await client.call_tool("read_document", {"number": 7})
    assert result.content[0].text == "document 7, read by scribe for ada"
