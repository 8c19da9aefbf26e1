"""`/admin/tasks`, and the switch of an agent: looking at tasks and ending them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from keel.refusal import Refusal
from onbe.deps import Deps
from onbe.names import AGENT_ID, SPONSOR_LENGTH, TASK_ID
from onbe.tasks import actions
from onbe.tasks.model import Task
from onbe.wire.admin.agents import AgentId
from onbe.wire.admin.answers import answer, gives, instant, refused, told

TaskId = Annotated[str, Path(description="The task's id.", json_schema_extra={"pattern": f"^{TASK_ID}$"})]

_TEXT: dict[str, Any] = {"type": "string"}
_INSTANT: dict[str, Any] = {"type": "string", "format": "date-time"}
_MEMBERS: dict[str, dict[str, Any]] = {
    "id": {**_TEXT, "pattern": "^task_"},
    "agent": _TEXT,
    "sponsor": _TEXT,
    "audience": _TEXT,
    "scope": {**_TEXT, "description": "What it was granted, as in a token."},
    "state": {
        "enum": ["open", "expired", "revoked"],
        "description": "`expired` as soon as its time is over, whether the sweeper came by or not.",
    },
    "created_at": _INSTANT,
    "expires_at": _INSTANT,
    "ended_at": {"type": ["string", "null"], "format": "date-time"},
    "end_reason": {"type": ["string", "null"], "description": "Why it was revoked; null for one that was not."},
    "parent": {"type": ["string", "null"], "description": "The task that it was delegated from."},
    "depth": {"type": "integer", "minimum": 1},
    "chain": {"type": "array", "items": _TEXT, "description": "The agents on the way, its own first."},
    "instance": {"type": ["string", "null"]},
    "renewals": {"type": "integer", "minimum": 0},
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "Task": {
        "type": "object", "properties": _MEMBERS, "required": list(_MEMBERS), "additionalProperties": False,
    },
    "Tasks": {
        "type": "object",
        "properties": {
            "tasks": {"type": "array", "items": {"$ref": "#/components/schemas/Task"}},
            "next": {
                "type": ["string", "null"],
                "description": "Give it as `before` for older ones; null where there are none.",
            },
        },
        "required": ["tasks", "next"],
        "additionalProperties": False,
    },
    "TasksEnded": {
        "type": "object",
        "properties": {
            "tasks_ended": {
                "type": "integer", "minimum": 0,
                "description": "How many tasks this ended, those delegated from others among them.",
            }
        },
        "required": ["tasks_ended"],
        "additionalProperties": False,
    },
}  # fmt: skip


def router(deps: Deps) -> APIRouter:
    """The operations on tasks."""
    api = APIRouter(tags=["tasks"])

    @api.get("/tasks", responses={**gives("Tasks", "Some tasks, the newest first.")}, response_model=None)
    async def list_tasks(
        agent: Annotated[str | None, _of("Those of this agent alone.", AGENT_ID)] = None,
        sponsor: Annotated[str | None, _of("Those for this person alone.", f"[^\\x00]{{0,{SPONSOR_LENGTH}}}")] = None,
        open: Annotated[bool | None, Query(description="True: those that live; false: those that are over.")] = None,
        before: Annotated[str | None, _of("The `next` of the page before.", TASK_ID)] = None,
        limit: Annotated[int, Query(ge=1, le=200, description="The most tasks in the answer.")] = 50,
    ) -> Response:
        """List tasks, narrowed by any of the filters."""
        found = await actions.page(deps, agent=agent, sponsor=sponsor, open=open, before=before, limit=limit + 1)
        page = found[:limit]
        return answer(
            {"tasks": [_told(deps, one) for one in page], "next": page[-1].id if len(found) > limit else None}
        )

    @api.get("/tasks/{task_id}", responses={**gives("Task", "The task."), **told(404)}, response_model=None)
    async def read_task(task_id: TaskId) -> Response:
        """Read a task."""
        found = await actions.find(deps, task_id)
        return refused(found) if isinstance(found, Refusal) else answer(_told(deps, found))

    @api.delete(
        "/tasks/{task_id}",
        responses={**gives("TasksEnded", "It has ended, now or before."), **told(404)},
        response_model=None,
    )
    async def end_task(task_id: TaskId) -> Response:
        """End a task and all that is delegated from it. One that has ended stays as it ended."""
        return ended(await actions.end_task(deps, task_id))

    @api.delete(
        "/agents/{agent_id}/tasks",
        responses={**gives("TasksEnded", "None of its tasks is open."), **told(404)},
        response_model=None,
    )
    async def end_tasks_of_agent(agent_id: AgentId) -> Response:
        """End all tasks of an agent and all that is delegated from them. It may begin new ones: disable it as well."""
        return ended(await actions.end_tasks_of_agent(deps, agent_id))

    return api


def _of(description: str, grammar: str) -> Any:
    return Query(description=description, pattern=f"^{grammar}$")


def ended(done: list[Task] | Refusal) -> Response:
    """How many a switch ended."""
    return refused(done) if isinstance(done, Refusal) else answer({"tasks_ended": len(done)})


def _told(deps: Deps, task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "agent": task.agent,
        "sponsor": task.sponsor,
        "audience": task.audience,
        "scope": " ".join(task.scope),
        "state": task.state(deps.clock.now()),
        "created_at": instant(task.created_at),
        "expires_at": instant(task.expires_at),
        "ended_at": instant(task.ended_at) if task.ended_at else None,
        "end_reason": task.end_reason,
        "parent": task.parent,
        "depth": task.depth,
        "chain": list(task.chain),
        "instance": task.instance,
        "renewals": task.renewals,
    }
