"""MCP clients that are not ours, for any server: the official Python client in both eras, and bare HTTP.

What they are pointed at is only a URL and a token, so the same clients test the stub server and the real one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import CallToolResult, Implementation, TextContent

MODERN = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18")
PYTHON_MODES = ("auto", MODERN, "legacy")
"""The official client: it probes, it is told the revision, or it shakes hands as the older ones do."""

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}


@asynccontextmanager
async def python_client(url: str, token: str, mode: str = "auto", name: str = "pytest") -> AsyncIterator[Client]:
    """The official Python client, connected. `mode` is one of `PYTHON_MODES`."""
    headers = {"Authorization": f"Bearer {token}"}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(
            transport, mode=mode, client_info=Implementation(name=name, version="1"), cache=None
        ) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    """The text of an answer."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back over HTTP: every JSON-RPC message of the answer, the last one being the reply itself."""

    status: int
    headers: Mapping[str, str]
    messages: tuple[dict[str, Any], ...] = field(default=())

    @property
    def result(self) -> dict[str, Any]:
        """The reply's result."""
        result: dict[str, Any] = self.messages[-1]["result"]
        return result

    @property
    def error(self) -> dict[str, Any]:
        """The reply's JSON-RPC error."""
        error: dict[str, Any] = self.messages[-1]["error"]
        return error


@dataclass(frozen=True, slots=True)
class Raw:
    """Requests as bytes on the wire, right or wrong."""

    url: str
    token: str | None

    async def post(self, body: object, headers: Mapping[str, str | None] | None = None) -> Reply:
        """One POST. `body` is bytes, or a value to send as JSON; a header given as None is left out."""
        sent: dict[str, str | None] = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self.token}" if self.token is not None else None,
            **(headers or {}),
        }
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with httpx2.AsyncClient(timeout=60) as http:
            request = http.build_request("POST", self.url, content=content)
            for name, value in sent.items():
                request.headers.pop(name, None)
                if value is not None:
                    request.headers[name] = value
            return _reply(await http.send(request))

    async def rpc(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        version: str | None = MODERN,
        headers: Mapping[str, str | None] | None = None,
    ) -> Reply:
        """One request of the given revision, with the headers and the envelope that it wants."""
        given = dict(params or {})
        sent: dict[str, str | None] = {"MCP-Protocol-Version": version}
        if version == MODERN:
            given["_meta"] = {**META, **given.get("_meta", {})}
            sent["Mcp-Method"] = method
            if isinstance(name := given.get("name") or given.get("uri"), str):
                sent["Mcp-Name"] = name
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
        return await self.post(body, {**sent, **(headers or {})})

    async def call(self, tool: str, arguments: object = None, **more: Any) -> Reply:
        """One tool call; `arguments` may be of any shape, and is left out when it is `...`."""
        params = {"name": tool} if arguments is ... else {"name": tool, "arguments": arguments}
        return await self.rpc("tools/call", params, **more)


def _reply(response: httpx2.Response) -> Reply:
    kind = response.headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        lines = [line.removeprefix("data:").strip() for line in response.text.splitlines() if line.startswith("data:")]
        return Reply(response.status_code, response.headers, tuple(json.loads(line) for line in lines if line))
    messages = (response.json(),) if kind.startswith("application/json") and response.content else ()
    return Reply(response.status_code, response.headers, messages)
