"""An agent as Rift meets one: the official MCP client over Streamable HTTP, with a bearer token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult, Implementation, TextContent

from keel.telling import Wrong, expect
from rift.settings import is_loopback
from rift.wire.refusals import META_KEY

ANSWERS_WITHIN = 70.0
"""The longest that any call takes, in seconds: above what each tool promises."""

UP = "`rift up` serves; `rift doctor` checks what this host allows"


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: its text, its structured content, and for a refusal its code and mends."""

    text: str
    structured: Mapping[str, Any]
    code: str | None
    mends: tuple[Mapping[str, Any], ...]
    error: bool

    @property
    def last(self) -> str:
        """The last line."""
        return self.text.rstrip().rpartition("\n")[2]

    def line(self, beginning: str) -> str:
        """The first line that begins so. Raises Wrong when there is none."""
        for line in self.text.splitlines():
            if line.startswith(beginning):
                return line
        raise Wrong(f"a line that begins with {beginning!r}", self.text)


class Agent:
    """A connected client. `name` is what its token was made for: tasks show it as `mcp:NAME`."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.holder = f"mcp:{name}"
        self._client = client

    async def ask(self, tool: str, **arguments: object) -> Said:
        """The answer to one call, refused or not. Raises Wrong when none came."""
        try:
            return _said(await self._client.call_tool(tool, arguments))
        except Exception as error:
            raise Wrong(f"an answer of {tool}", reason_of(error), mend_of(error)) from error

    async def call(self, tool: str, **arguments: object) -> Said:
        """The answer to a call that must not be refused. Raises Wrong when it is."""
        said = await self.ask(tool, **arguments)
        expect(not said.error, f"that {tool} is not refused", said.text)
        return said


@asynccontextmanager
async def connected(address: str, secret: str, name: str) -> AsyncIterator[Agent]:
    """An agent that talks to `address` under the token `secret`. Let no exception of your own out of the block."""
    url = f"{address}/mcp"
    own = is_loopback(urlsplit(address).hostname or "")  # a proxy of the environment is not asked for this machine
    async with (
        _Http(
            headers={"Authorization": f"Bearer {secret}"},
            timeout=httpx2.Timeout(10.0, read=ANSWERS_WITHIN),
            trust_env=not own,
        ) as http,
        Client(
            streamable_http_client(url, http_client=http),
            client_info=Implementation(name=name, version="1"),
            read_timeout_seconds=ANSWERS_WITHIN,
            cache=None,
        ) as client,
    ):
        yield Agent(name, client)


class _Http(httpx2.AsyncClient):
    """Says a failed connection as an answer: the MCP client would end with it, and could not be asked again."""

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        try:
            return await super().send(request, **how)
        except httpx2.TransportError as error:
            message = f"cannot talk to {request.url}: {reason_of(error)}"
            told = {"jsonrpc": "2.0", "id": None, "error": {"code": CONNECTION_CLOSED, "message": message}}
            return httpx2.Response(503, json=told, request=request)


def reason_of(error: BaseException) -> str:
    """Why it failed, in one line: of a group the first, with the exception's name where it says nothing itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def mend_of(error: BaseException) -> str | None:
    """What mends it; None where the server answered, for it says so itself."""
    return None if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED else UP


def _said(result: CallToolResult) -> Said:
    text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
    told = (result.meta or {}).get(META_KEY) or {}
    structured = result.structured_content
    return Said(
        text,
        structured if isinstance(structured, Mapping) else {},
        told.get("code"),
        tuple(told.get("mends", ())),
        bool(result.is_error),
    )
