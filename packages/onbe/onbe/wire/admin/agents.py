"""The registry: `/admin/agents`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from keel.refusal import Refusal
from onbe.deps import Deps
from onbe.directory import actions
from onbe.directory.decide import document
from onbe.directory.model import Registration
from onbe.names import AGENT_ID
from onbe.wire.admin.answers import answer, gives, instant, refused, told
from onbe.wire.admin.bodies import JSON, MERGE_PATCH, json_of

AgentId = Annotated[str, Path(description="The agent's id.", json_schema_extra={"pattern": f"^{AGENT_ID}$"})]
DryRun = Annotated[bool, Query(description="Say what would be, and change nothing.")]


def router(deps: Deps) -> APIRouter:
    """The operations on agents."""
    api = APIRouter(prefix="/agents", tags=["agents"])

    @api.get("", responses={**gives("Agents", "Some agents, in the order of their ids.")}, response_model=None)
    async def list_agents(
        after: Annotated[str, Query(description="The `next` of the page before.", pattern=f"^({AGENT_ID})?$")] = "",
        limit: Annotated[int, Query(ge=1, le=200, description="The most agents in the answer.")] = 50,
    ) -> Response:
        """List the agents."""
        page = await actions.list_agents(deps, after, limit)
        return answer(
            {
                "agents": [_told(one) for one in page.agents],
                "next": page.agents[-1].agent_id if page.more else None,
            }
        )

    @api.post(
        "",
        status_code=201,
        responses={**gives("Agent", "The agent, registered (200: a dry run).", 201), **told(409, 415, 422)},
        openapi_extra=_body("AgentNew", JSON),
        response_model=None,
    )
    async def create_agent(request: Request, dry_run: DryRun = False) -> Response:
        """Register an agent."""
        given = await json_of(request, JSON)
        if isinstance(given, Refusal):
            return refused(given)
        done = await actions.create_agent(deps, given, dry_run=dry_run)
        if isinstance(done, Refusal):
            return refused(done)
        return answer(_told(done), 201, None if dry_run else {"Location": f"/admin/agents/{done.agent_id}"})

    @api.get("/{agent_id}", responses={**gives("Agent", "The agent."), **told(404)}, response_model=None)
    async def read_agent(agent_id: AgentId) -> Response:
        """Read an agent."""
        return _answered(await actions.read_agent(deps, agent_id))

    @api.patch(
        "/{agent_id}",
        responses={**gives("Agent", "The agent as it is now."), **told(404, 415, 422)},
        openapi_extra=_body("AgentPatch", MERGE_PATCH, JSON),
        response_model=None,
    )
    async def change_agent(agent_id: AgentId, request: Request, dry_run: DryRun = False) -> Response:
        """Change an agent by a JSON merge patch. Its tasks meet the change at their next refresh."""
        patch = await json_of(request, MERGE_PATCH, JSON)
        if isinstance(patch, Refusal):
            return refused(patch)
        return _answered(await actions.change_agent(deps, agent_id, patch, dry_run=dry_run))

    @api.delete(
        "/{agent_id}",
        status_code=204,
        responses={204: {"description": "It is gone."}, **told(404, 409)},
        response_model=None,
    )
    async def delete_agent(agent_id: AgentId) -> Response:
        """Delete an agent of which no task is stored; one that has tasks is disabled instead."""
        done = await actions.delete_agent(deps, agent_id)
        return refused(done) if isinstance(done, Refusal) else Response(status_code=204)

    return api


def _told(agent: Registration) -> dict[str, Any]:
    return {
        **document(agent),
        "created_at": instant(agent.created_at),
        "updated_at": instant(agent.updated_at),
    }


def _answered(done: Registration | Refusal) -> Response:
    return refused(done) if isinstance(done, Refusal) else answer(_told(done))


def _body(schema: str, *types: str) -> dict[str, Any]:
    content = {kind: {"schema": {"$ref": f"#/components/schemas/{schema}"}} for kind in types}
    return {"requestBody": {"required": True, "content": content}}
