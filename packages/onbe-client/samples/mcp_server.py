"""An MCP server of the official SDK, guarded in three lines.

ONBE_ISSUER=https://onbe.example.com MCP=https://mcp.example.com/mcp uvicorn mcp_server:app
"""

from __future__ import annotations

import os

from mcp.server import MCPServer

from onbe_client.guard.mcp import Guard, guarded, task_token

guard = Guard(os.environ["ONBE_ISSUER"], os.environ["MCP"])
server = MCPServer("documents", **guarded(guard, "docs:read"))


@server.tool()
def read_document(number: int) -> str:
    """Read one document."""
    token = task_token()
    return f"document {number}, read by {token.agent} for {token.subject}"


app = server.streamable_http_app()
