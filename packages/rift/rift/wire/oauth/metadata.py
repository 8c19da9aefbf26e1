"""What a client reads first: which server guards the MCP endpoint, and what that server can do.

Sources: RFC 9728 (protected resource), RFC 8414 (authorization server) and its OpenID path, RFC 9207 (`iss`), the draft
of client-id metadata documents; MCP 2026-07-28, Authorization.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rift.connections.model import SCOPE
from rift.wire.oauth.answers import ANYBODY, PREFLIGHT

RESOURCE_PATH = "/.well-known/oauth-protected-resource/mcp"
"""Where the guard's answers send a client that has no token."""
RESOURCE_PATHS = ("/.well-known/oauth-protected-resource", RESOURCE_PATH)
SERVER_PATHS = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
    "/mcp/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/mcp",
    "/mcp/.well-known/openid-configuration",
)
"""Clients look at one after another of these; all say the same."""


def resource_document(public: str) -> dict[str, Any]:
    """The protected resource: the MCP endpoint, and the server that gives tokens for it, which is this one."""
    return {
        "resource": f"{public}/mcp",
        "authorization_servers": [public],
        "scopes_supported": [SCOPE],
        "bearer_methods_supported": ["header"],
        "resource_name": "Rift",
        "resource_documentation": f"{public}/docs",
    }


def server_document(public: str) -> dict[str, Any]:
    """The authorization server, whose issuer is the public address without a slash at its end."""
    return {
        "issuer": public,
        "authorization_endpoint": f"{public}/oauth2/authorize",
        "token_endpoint": f"{public}/oauth2/token",
        "registration_endpoint": f"{public}/oauth2/register",
        "revocation_endpoint": f"{public}/oauth2/revoke",
        "scopes_supported": [SCOPE],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{public}/docs",
    }


def metadata_routes(public: str) -> list[BaseRoute]:
    """The routes of both documents."""
    told = {path: resource_document(public) for path in RESOURCE_PATHS}
    told |= {path: server_document(public) for path in SERVER_PATHS}

    async def show(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=PREFLIGHT)
        return JSONResponse(told[request.url.path], headers={**ANYBODY, "Cache-Control": "public, max-age=300"})

    return [Route(path, show, methods=["GET", "OPTIONS"]) for path in told]
