"""rift_task_release: gives the lease up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from keel.refusal import Call as CallMend
from rift.tasks import actions
from rift.times import span
from rift.wire.mcp import schemas
from rift.wire.mcp.common import TASK
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Release it, and say how it is taken up again."""
    task = await actions.release(call.deps, call.act, arguments["task"])
    if isinstance(task, Refusal):
        return task
    quiet = span(call.deps.settings.tasks.quiet_close)
    return Answer(
        lines(
            f"released the task {task.id} {quoted(task.name)}: it is free and its VMs are kept; your handle is void.",
            f"Unless somebody takes it up, it closes itself after {quiet} and its VMs are destroyed.",
            next_line(CallMend("rift_task_attach", {"task": task.id})),
        )
    )


TOOL = Tool(
    name="rift_task_release",
    title="Give a task up",
    description=(
        "Gives the task's lease up, for another agent's rift_task_attach. Its VMs are kept; your handle stops working."
    ),
    input_schema=schemas.arguments(required={"task": TASK}),
    run=run,
    example={"task": YOUR_HANDLE},
)
