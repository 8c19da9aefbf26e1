"""`/admin/sponsors/{key}`: how a person stands, blocking them, ending what is done for them.

A key is whatever the identity provider calls somebody, so it may hold any printable character, a slash too. In a path
it is percent-encoded as a whole (RFC 3986, 2.1); `KeysInPaths` lets such a path be matched before it is decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from keel.refusal import Refusal, Stop
from onbe.deps import Deps
from onbe.directory.model import Sponsor
from onbe.directory.refusals import not_blocked
from onbe.names import BLOCK_REASON_LENGTH, SPONSOR_LENGTH
from onbe.tasks import actions
from onbe.tasks.actions import Standing
from onbe.wire.admin.answers import answer, gives, instant, malformed, refused, told
from onbe.wire.admin.bodies import JSON, json_of
from onbe.wire.admin.tasks import ended

BELOW = "/sponsors/"
EncodedKey = Annotated[
    str,
    Path(
        description="The person's key, percent-encoded as a whole.",
        json_schema_extra={"minLength": 1, "maxLength": SPONSOR_LENGTH, "pattern": "^[^\\u0000]+$"},
    ),
]

_BLOCKS: dict[str, Any] = {
    "type": "object",
    "description": "By the source that placed it, which alone can lift it.",
    "additionalProperties": {
        "type": "object",
        "properties": {"at": {"type": "string", "format": "date-time"}, "reason": {"type": "string"}},
        "required": ["at", "reason"],
        "additionalProperties": False,
    },
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "Block": {
        "type": "object",
        "properties": {
            "reason": {
                "type": "string", "minLength": 1, "maxLength": BLOCK_REASON_LENGTH,
                "description": "For whoever reads it later; it goes on the record. No control characters.",
            }
        },
        "required": ["reason"],
        "additionalProperties": False,
    },
    "Sponsor": {
        "type": "object",
        "properties": {
            "sponsor": {"type": "string"},
            "blocked": {"type": "boolean"},
            "blocks": _BLOCKS,
            "open_tasks": {"type": "integer", "minimum": 0},
            "tasks_ended_at": {
                "type": ["string", "null"], "format": "date-time",
                "description": "When all their tasks were last ended at once.",
            },
        },
        "required": ["sponsor", "blocked", "blocks", "open_tasks", "tasks_ended_at"],
        "additionalProperties": False,
    },
}  # fmt: skip


class KeysInPaths:
    """Has paths below `/sponsors/` matched as they were sent: a slash of a key is `%2F` there, and divides nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(scope.get("root_path", "") + BELOW):
            sent = scope.get("raw_path") or quote(scope["path"]).encode()
            scope = {**scope, "path": sent.decode("latin-1")}
        await self._app(scope, receive, send)


def router(deps: Deps) -> APIRouter:
    """The operations on the people that agents act for."""
    api = APIRouter(prefix="/sponsors", tags=["sponsors"])

    @api.get("/{key}", responses={**gives("Sponsor", "The person.")}, response_model=None)
    async def read_sponsor(key: EncodedKey) -> Response:
        """Say how a person stands here. One of whom nothing is known yet is blocked by nobody and has no tasks."""
        sponsor = key_of(key)
        return refused(sponsor) if isinstance(sponsor, Refusal) else _told(await actions.look_at(deps, sponsor))

    @api.get(
        "/{key}/block",
        responses={**gives("Sponsor", "The person, who is blocked."), **told(404)},
        response_model=None,
    )
    async def read_block(key: EncodedKey) -> Response:
        """Say how a person stands who is blocked; 404 for one who is not."""
        sponsor = key_of(key)
        if isinstance(sponsor, Refusal):
            return refused(sponsor)
        standing = await actions.look_at(deps, sponsor)
        return _told(standing if standing.sponsor.blocked else not_blocked(Stop()))

    @api.put(
        "/{key}/block",
        responses={**gives("Sponsor", "The person, blocked, without open tasks."), **told(415)},
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {JSON: {"schema": {"$ref": "#/components/schemas/Block"}}},
            }
        },
        response_model=None,
    )
    async def block(key: EncodedKey, request: Request) -> Response:
        """Block a person: all that is done for them ends, and nothing begins until the block is lifted."""
        sponsor, reason = key_of(key), reason_of(await json_of(request, JSON))
        if isinstance(sponsor, Refusal):
            return refused(sponsor)
        return refused(reason) if isinstance(reason, Refusal) else _told(await actions.block(deps, sponsor, reason))

    @api.delete(
        "/{key}/block",
        responses={**gives("Sponsor", "The person, without the admin API's block."), **told(404, 409)},
        response_model=None,
    )
    async def unblock(key: EncodedKey) -> Response:
        """Lift the block that the admin API placed, and no other. What it ended stays ended."""
        sponsor = key_of(key)
        return refused(sponsor) if isinstance(sponsor, Refusal) else _told(await actions.unblock(deps, sponsor))

    @api.delete(
        "/{key}/tasks",
        responses={**gives("TasksEnded", "Nothing that was begun for them is open.")},
        response_model=None,
    )
    async def end_tasks_of_sponsor(key: EncodedKey) -> Response:
        """End all that is done for a person. They may have new tasks begun: block them as well."""
        sponsor = key_of(key)
        if isinstance(sponsor, Refusal):
            return refused(sponsor)
        return ended(await actions.end_tasks_of_sponsor(deps, sponsor))

    return api


def key_of(encoded: str) -> str | Refusal:
    """The key that a path's segment stands for."""
    try:
        key = unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        return malformed("The person's key in the path is not UTF-8, percent-encoded")
    if not 0 < len(key) <= SPONSOR_LENGTH or not key.isprintable():
        return malformed(f"The person's key should be 1 to {SPONSOR_LENGTH} printable characters")
    return key


def reason_of(body: object) -> str | Refusal:
    """The reason that a block's body gives."""
    if isinstance(body, Refusal):
        return body
    if not isinstance(body, dict) or set(body) != {"reason"}:
        return malformed("The body should be an object with the member reason and no other")
    reason = body["reason"]
    if not isinstance(reason, str) or not 0 < len(reason) <= BLOCK_REASON_LENGTH or not reason.isprintable():
        return malformed(f"The reason should be 1 to {BLOCK_REASON_LENGTH} characters, no control characters")
    return reason


def _told(standing: Standing | Refusal) -> Response:
    if isinstance(standing, Refusal):
        return refused(standing)
    sponsor: Sponsor = standing.sponsor
    blocks: Mapping[str, Any] = sponsor.blocks
    return answer(
        {
            "sponsor": sponsor.key,
            "blocked": sponsor.blocked,
            "blocks": {source: {"at": one["at"], "reason": one["reason"]} for source, one in sorted(blocks.items())},
            "open_tasks": standing.open_tasks,
            "tasks_ended_at": instant(sponsor.tasks_ended_at) if sponsor.tasks_ended_at else None,
        }
    )
