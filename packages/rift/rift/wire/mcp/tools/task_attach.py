"""rift_task_attach: a fresh handle for a task; the previous one dies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from keel.refusal import Call as CallMend
from rift.tasks import actions
from rift.wire.mcp import schemas
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Mint the handle, and give it."""
    lease = await actions.attach(call.deps, call.act, arguments["task"], arguments.get("takeover", False))
    if isinstance(lease, Refusal):
        return lease
    return Answer(
        lines(
            f"attached to the task {lease.task.id} {quoted(lease.task.name)}; you hold it.",
            f"handle: {lease.handle}",
            "Give the handle as `task` in every call on this task. Any earlier handle of it has stopped working.",
            next_line(CallMend("rift_vm_ls", {"task": YOUR_HANDLE})),
        )
    )


TOOL = Tool(
    name="rift_task_attach",
    title="Take a task up",
    description=(
        "Answers a fresh handle for a task of yours: a free one, or one whose holder has been quiet for half an "
        "hour. With takeover it takes any of yours; tell the user first, because the previous handle dies. Next: "
        "rift_vm_ls."
    ),
    input_schema=schemas.arguments(
        required={"task": schemas.string("The task's id, as rift_task_ls gives it.", minLength=1)},
        optional={"takeover": schemas.boolean("Take it from an active holder.")},
    ),
    run=run,
    example={"task": "<task id>"},
    destructive=True,
    when_missing={"task": CallMend("rift_task_ls", {})},
)
