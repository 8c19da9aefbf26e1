"""A tool server: a Starlette application whose routes are opened by task tokens.

ONBE_ISSUER=https://onbe.example.com TOOL=https://tool.example.com uvicorn tool_server:app
"""

from __future__ import annotations

import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from onbe_client.guard import Guard, GuardMiddleware, task_token

guard = Guard(
    os.environ["ONBE_ISSUER"],
    os.environ["TOOL"],
    # The tool server's own registration, for audiences of high risk: with it revoked tokens are refused at once.
    agent_id=os.environ.get("ONBE_TOOL_AGENT"),
    key=os.environ.get("ONBE_TOOL_KEY"),
)


async def document(request: Request) -> Response:
    token = task_token(request)
    return JSONResponse({"document": request.path_params["id"], "for": token.subject, "by": token.agent})


async def health(request: Request) -> Response:
    return PlainTextResponse("ok")


app = GuardMiddleware(
    Starlette(routes=[Route("/documents/{id}", document, methods=["GET", "PUT"]), Route("/health", health)]),
    guard,
    {"GET /documents": "docs:read", "PUT /documents": "docs:write", "/health": None},
    publish=True,
)
