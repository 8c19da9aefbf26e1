"""MCP clients from npm sign in by the address alone, their browser being a program of the test's."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.wire.clients import text_of
from tests.wire.oauth import stand_in
from tests.wire.oauth.standing import Standing, standing
from tests.wire.testers import INSPECTOR, INSPECTOR_VERSION, installed, ran

from rift.deps import Deps

REMOTE, REMOTE_VERSION = "mcp-remote", "0.15.1"
CONFORMANCE, CONFORMANCE_VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
SDK, SDK_VERSION = "@modelcontextprotocol/sdk", "1.32.2"


@pytest.fixture
async def rift(deps: Deps) -> AsyncIterator[Standing]:
    """A whole Rift at a port."""
    async with standing(deps) as made:
        yield made


@pytest.fixture
def env(rift: Standing, tmp_path: Path) -> dict[str, str]:
    """An environment whose browser is the test's, signed in."""
    cookie = "; ".join(f"{name}={value}" for name, value in rift.http.cookies.items())
    return {**stand_in.installed(tmp_path), "STAND_IN_COOKIE": cookie}


async def test_mcp_remote_signs_in_by_the_address_alone(
    rift: Standing, env: dict[str, str], tmp_path: Path, needs: Callable[[str], None]
) -> None:
    needs("node")
    home = await asyncio.to_thread(installed, REMOTE, REMOTE_VERSION)
    program = str(home / "node_modules" / ".bin" / "mcp-remote")
    server = StdioServerParameters(command=program, args=[rift.mcp], env={**os.environ, **env})
    with (tmp_path / "said").open("w") as said:
        async with asyncio.timeout(60), Client(stdio_client(server, errlog=said), cache=None) as client:
            assert rift.email in text_of(await client.call_tool("rift_whoami", {}))
            await client.call_tool("rift_task_new", {"name": "by mcp-remote"})
            assert "mcp:MCP CLI Proxy" in text_of(await client.call_tool("rift_task_ls", {}))
    assert len((tmp_path / "seen").read_text().splitlines()) == 1


async def test_the_inspector_signs_in_by_the_address_alone(
    rift: Standing, env: dict[str, str], tmp_path: Path, needs: Callable[[str], None]
) -> None:
    needs("node")
    home = await asyncio.to_thread(installed, INSPECTOR, INSPECTOR_VERSION)
    program = str(home / "node_modules" / ".bin" / "mcp-inspector")
    kept = {**env, "MCP_CATALOG_PATH": str(tmp_path / "catalog.json"), "MCP_AUTO_OPEN_ENABLED": "true"}
    done = await ran(
        program,
        "--cli",
        rift.mcp,
        "--transport",
        "http",
        "--method",
        "tools/call",
        "--tool-name",
        "rift_whoami",
        env=kept,
    )
    assert done.code == 0, (done.out, done.err)
    assert rift.email in done.out


async def test_the_typescript_sdk_signs_in_by_the_address_alone(
    rift: Standing, tmp_path: Path, needs: Callable[[str], None]
) -> None:
    needs("node")
    home = await asyncio.to_thread(installed, SDK, SDK_VERSION)
    script = home / "client.mjs"
    script.write_text((Path(__file__).parent / "client.mjs").read_text())
    client = await asyncio.create_subprocess_exec(
        "node", str(script), rift.mcp, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert client.stdin is not None
    assert client.stdout is not None
    async with asyncio.timeout(60):
        line = (await client.stdout.readline()).decode()
        assert line.startswith("open "), line + (await client.stdout.read()).decode()
        client.stdin.write(f"{await rift.consent(line[5:].strip())}\n".encode())
        out = (await client.stdout.read()).decode()
        await client.wait()
    said = json.loads(out.strip().splitlines()[-1])
    assert rift.email in said["whoami"]
    assert "mcp:TypeScript" in said["tasks"]
    assert said["renewed"] is True


async def test_the_conformance_suite_finds_an_authorization_server_as_it_should_be(
    rift: Standing, tmp_path: Path, needs: Callable[[str], None]
) -> None:
    needs("node")
    home = await asyncio.to_thread(installed, CONFORMANCE, CONFORMANCE_VERSION)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = {"client_name": "Conformance", "redirect_uris": [f"http://127.0.0.1:{port}/callback"]}
    client = (await rift.http.post("/oauth2/register", json=said)).json()["client_id"]
    suite = await asyncio.create_subprocess_exec(
        str(home / "node_modules" / ".bin" / "conformance"), "authorization", "--url", rift.public,
        "--client-id", client, "--resource", rift.mcp, "--port", str(port), "--output-dir", str(tmp_path),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out = await rift.driven(suite)
    assert suite.returncode == 0, out
    checks = [check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    assert {check["status"] for check in checks} == {"SUCCESS"}, checks
    assert "authorization-code-grant" in {check["id"] for check in checks}
